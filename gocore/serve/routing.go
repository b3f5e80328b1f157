package serve

import (
	"slices"
	"strings"

	"dynosim/gocore/router"
	_ "dynosim/gocore/router/policies" // routing modes
)

// ownModes are the router modes whose names on the command line of a server are those of Dynamo's frontend. All other
// modes that package router knows, also those that other packages register, have the names that they have there.
var ownModes = []struct {
	name string
	mode func() router.Mode
}{
	{"round-robin", func() router.Mode { return registered(router.RoundRobinMode) }},
	{"random", func() router.Mode { return randomMode }},
	{"kv", func() router.Mode { return registered(router.KVMode) }},
}

// randomMode is one that only servers have: ai-dynamo replays no traces with it.
var randomMode = router.Mode{
	Name: "random",
	New:  func(o router.Options) router.Router { return router.NewRandom(o.Workers, o.Rand) },
}

func registered(name string) router.Mode {
	mode, _ := router.FindMode(name)
	return mode
}

// routerModes lists the names of all modes that a server knows.
func routerModes() []string {
	var names, renamed []string
	for _, own := range ownModes {
		names, renamed = append(names, own.name), append(renamed, own.mode().Name)
	}
	for _, name := range router.ModeNames() {
		if !slices.Contains(renamed, name) {
			names = append(names, name)
		}
	}
	return names
}

// findMode returns the mode of one of these names.
func findMode(name string) router.Mode {
	for _, own := range ownModes {
		if own.name == name {
			return own.mode()
		}
	}
	return registered(name)
}

// configuredModes lists the names of modes that look at their configuration, for messages.
func configuredModes() string {
	names := slices.DeleteFunc(routerModes(), func(name string) bool { return !findMode(name).Configured })
	return strings.Join(names, " or ")
}
