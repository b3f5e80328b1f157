package router

import (
	"fmt"
	"slices"

	"dynosim/gocore/strictjson"
)

// Mode is a kind of router that users ask for by its name.
type Mode struct {
	Name string
	New  func(Options) Router
	// Configured tells that New looks at more of the options than the number of workers: at the configuration, random
	// numbers, pins and the log. Users of other modes hear that such input has no effect.
	Configured bool

	// Doc says in a phrase which worker gets a request, for tables.
	Doc string
	// Settings are the keys that the router configuration of this mode has; nil for a mode that is Configured or has
	// none. New finds their values in Options.Settings.
	Settings []strictjson.Field
	// Asks tells that decisions come from outside of the program, through Options.Decider. Such a mode is not among
	// those that users ask for by name.
	Asks bool
	// UsesEvents says that New, which does not look at Options.Config, makes a router that learns of cache events and goes
	// by priorities.
	UsesEvents bool
	// Draws tells that New draws random numbers, so that the seed matters.
	Draws bool
}

// Names of the modes that are built in.
const (
	RoundRobinMode = "round_robin"
	KVMode         = "kv_router"
)

var modes = []Mode{
	{Name: RoundRobinMode, New: func(o Options) Router { return NewRoundRobin(o.Workers) }},
	{Name: KVMode, New: func(o Options) Router { return NewKV(o) }, Configured: true},
}

// Register adds a mode, so that runs find it by its name. It is for the init functions of packages that bring modes
// along, and panics if the name is taken.
func Register(m Mode) {
	if _, taken := FindMode(m.Name); taken {
		panic(fmt.Sprintf("router: there are two modes %q", m.Name))
	}
	modes = append(modes, m)
}

// FindMode returns the mode of that name.
func FindMode(name string) (Mode, bool) {
	i := slices.IndexFunc(modes, func(m Mode) bool { return m.Name == name })
	if i < 0 {
		return Mode{}, false
	}
	return modes[i], true
}

// ModeNames lists the names of all modes, those that are built in first.
func ModeNames() []string {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = m.Name
	}
	return names
}

// Factory makes routers of this mode with these options. The pool says how many workers there are.
func (m Mode) Factory(o *Options) Factory {
	return func(workers int) Router {
		options := *o
		options.Workers = workers
		return m.New(options)
	}
}
