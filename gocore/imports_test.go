// Package gocore_test checks the structure of the core: which package may import which, and that the simulation itself
// never sees a clock, a file, a network or a goroutine.
package gocore_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ours returns the path of a package of this repository as this file writes it: below gocore, or bindings/...
func ours(importPath string) (name string, found bool) {
	name, found = strings.CutPrefix(importPath, "dynosim/")
	return strings.TrimPrefix(name, "gocore/"), found
}

// areas list the packages from the ground up, each with those that it may import: packages of its own area or of one
// before it in this list. A new package needs a row here.
var areas = []struct {
	name string
	rows map[string][]string
}{
	{"what every part builds on", map[string][]string{
		"spelling":       {},
		"strictjson":     {"spelling"},
		"fieldtable":     {"strictjson"},
		"eventheap":      {},
		"handoff":        {},
		"speculation":    {},
		"timing":         {},
		"timing/profile": {"spelling", "timing"},
		"kvcache":        {},
		"kvcache/paged":  {"kvcache"},
		"kvcache/radix":  {"kvcache"},
		"kvcache/chunks": {"kvcache"},
		"kvcache/naming": {},
		"pace":           {},
		"perfetto":       {},
		"leaktest":       {},
		"scripttest":     {},
	}},
	{"one engine", map[string][]string{
		"models": {"spelling", "strictjson"},
		"aic":    {"speculation", "strictjson", "timing"},
		"engine": {"handoff", "kvcache", "speculation", "timing"},
		"engineargs": {"aic", "engine", "handoff", "models", "speculation", "spelling", "strictjson",
			"timing"},
		"aic/session":               {"aic", "engineargs", "models", "strictjson", "timing"},
		"engines/internal/calendar": {},
		"engines/enginetest":        {"engine", "engineargs", "kvcache", "scripttest"},
		"worker/intake":             {"engine", "kvcache"},
		"engines/internal/lockstep": {"engine", "kvcache"},
		"engines/internal/roster":   {"engine"},
		"engines/internal/sharing":  {},
		"engines/internal/storage":  {"engine", "engineargs", "engines/internal/sharing", "kvcache"},
		"engines/internal/transit":  {"engine", "engines/internal/roster"},
		"engines/emission":          {"engine"},
		"engines/mocker/vllm": {"engine", "engines/internal/calendar", "engines/internal/roster",
			"engines/internal/transit", "engineargs", "handoff", "kvcache", "kvcache/paged", "speculation", "timing"},
		"engines/mocker/sglang": {"engine", "engines/internal/roster", "engines/internal/transit", "engineargs",
			"handoff", "kvcache", "kvcache/radix", "speculation", "timing"},
		"engines/vllm": {"engine", "engines/internal/calendar", "engines/internal/lockstep",
			"engines/internal/roster", "engines/internal/sharing", "engines/internal/storage",
			"engines/internal/transit", "engineargs", "kvcache", "kvcache/chunks", "kvcache/paged", "timing"},
		"engines/sglang": {"engine", "engines/internal/lockstep", "engines/internal/roster",
			"engines/internal/storage", "engines/internal/transit", "engineargs", "kvcache", "kvcache/radix", "timing"},
		"worker": {"engine", "worker/intake", "engines/mocker/sglang", "engines/sglang",
			"engines/mocker/vllm", "engines/vllm", "engineargs", "strictjson", "timing"},
		"calibration": {"aic", "engineargs", "spelling", "strictjson"},
		"cachetrace":  {"engine", "engineargs", "kvcache", "worker"},
	}},
	{"many engines in virtual time, and on the clock", map[string][]string{
		"workload/tracefile": {},
		"workload/traffic":   {"workload/tracefile"},
		"workload":           {"eventheap", "kvcache", "spelling", "workload/tracefile", "workload/traffic"},
		"router":             {"kvcache", "strictjson", "timing"},
		"router/policies":    {"kvcache", "router", "strictjson"},
		"report":             {"engine", "spelling", "workload"},
		"planner":            {"engine", "spelling", "strictjson"},
		"faults":             {"strictjson"},
		"journal":            {"engine", "eventheap", "perfetto"},
		"fleet": {"engine", "engineargs", "eventheap", "handoff", "kvcache", "planner", "router",
			"worker"},
		"deploy": {"engine", "engineargs", "router", "strictjson", "timing", "timing/profile"},
		"replay": {"engine", "engineargs", "eventheap", "faults", "fleet", "handoff", "journal", "kvcache",
			"planner", "report", "router", "timing", "worker", "workload"},

		"truth":        {"engine", "engineargs", "handoff", "replay", "report", "workload"},
		"truth/passes": {"truth"},
	}},
	{"the Dynamo protocol, in bytes", map[string][]string{
		"protocol":           {},
		"protocol/wire":      {},
		"protocol/bootstrap": {"handoff"},
		"protocol/card":      {},
		"protocol/discovery": {},
	}},
	{"live workers: sockets, clocks, goroutines", map[string][]string{
		"guard":                           {},
		"live/freeport":                   {},
		"live/connlimit":                  {},
		"live/bus":                        {"guard"},
		"live/bus/bustest":                {},
		"live/store":                      {"guard", "protocol/discovery"},
		"live/store/etcd":                 {"guard", "protocol/discovery"},
		"live/store/kubernetes/apiserver": {},
		"live/store/kubernetes":           {"guard", "live/store/kubernetes/apiserver", "protocol/discovery"},
		"live/blocks":                     {"kvcache"},
		"live/rendezvous":                 {"handoff", "guard", "protocol/bootstrap"},
		"live/plane":                      {"live/bus", "live/connlimit", "guard", "protocol/wire"},
		"live/publish/events":             {"engine", "kvcache", "live/blocks"},
		"live/publish/eventstest":         {},
		"live/publish/zmtp":               {"guard"},
		"live/publish": {"engine", "live/blocks", "live/bus", "guard", "live/plane", "live/publish/events",
			"live/publish/zmtp", "protocol/discovery", "protocol/wire"},
		"enginemetrics": {"engine", "engineargs", "worker"},
		"live": {"cachetrace", "engine", "engines/emission", "engineargs", "handoff", "journal",
			"kvcache", "live/blocks", "live/bus", "enginemetrics", "guard", "live/plane", "live/publish",
			"live/rendezvous", "pace", "protocol/bootstrap", "protocol/card", "protocol/discovery", "protocol/wire",
			"timing", "worker"},
	}},
	{"the OpenAI-compatible server: a router and engines in one process", map[string][]string{
		"server/cluster": {"engine", "engines/emission", "engineargs", "fleet", "handoff", "kvcache",
			"kvcache/naming", "live/blocks", "planner", "router"},
		"server/deployment": {"guard", "server/cluster"},
		"server/detokenize": {},
		"server/tokens":     {"guard", "server/detokenize"},
		"server/conform":    {"server/tokens"},
		"server/answers":    {"engineargs", "server/conform", "server/tokens"},
		"server/backend":    {"server/deployment"},
		"server/openai": {"engineargs", "enginemetrics", "guard", "server/answers", "server/backend",
			"server/cluster", "server/conform", "server/deployment", "server/tokens", "strictjson"},
	}},
	{"a frontend: workers of other processes behind that server", map[string][]string{
		"frontend/routing": {"kvcache", "kvcache/naming", "router"},
		"frontend": {"frontend/routing", "live/bus", "guard", "live/plane", "live/publish",
			"live/publish/events", "live/publish/zmtp", "protocol/card", "protocol/discovery", "protocol/wire",
			"router", "server/backend", "server/deployment", "server/tokens"},
	}},
	{"the two entries: a run, and a process of live workers", map[string][]string{
		"job/memory":     {},
		"job/tracestats": {"workload"},
		"job": {"aic", "aic/session", "cachetrace", "calibration", "deploy", "engine", "engineargs",
			"faults", "fleet", "handoff", "job/memory", "job/tracestats", "journal", "pace", "planner", "replay",
			"report", "router", "router/policies", "spelling", "strictjson", "timing", "timing/profile", "worker",
			"workload"},
		"serve": {"aic/session", "cachetrace", "calibration", "deploy", "engine", "engineargs", "frontend",
			"frontend/routing", "handoff", "live", "live/blocks", "live/bus", "live/connlimit", "enginemetrics",
			"guard", "live/plane", "live/publish", "live/store", "live/store/etcd", "live/store/kubernetes",
			"protocol/card", "protocol/discovery", "router", "router/policies", "server/answers", "server/cluster",
			"server/deployment", "server/openai", "server/tokens", "spelling", "strictjson", "timing", "timing/profile",
			"worker"},
	}},
	{"what Python calls", map[string][]string{
		"bindings/border":    {},
		"bindings/interrupt": {},
		"bindings":           {"bindings/border", "bindings/interrupt", "job"},
		"bindings/live":      {"bindings/border", "serve"},
	}},
}

// apart are trees of packages that must not need one another, directly or through others.
var apart = []struct {
	tree  string
	needs []string // what it must not need
	why   string
}{
	{"protocol", []string{"engine", "worker", "replay", "live"},
		"the protocol is bytes and documents; machinery uses it"},
	{"live", []string{"job", "workload", "report", "replay"}, "live workers replay nothing"},
	{"serve", []string{"job", "workload", "report", "replay"}, "live workers replay nothing"},
	{"server", []string{"job", "workload", "report", "replay", "protocol"}, "requests come from clients"},
	{"frontend", []string{"job", "workload", "report", "replay"}, "requests come from clients"},
	{"job", []string{"live", "serve", "protocol"}, "a replay talks to no frontend"},
	{"replay", []string{"job", "live", "serve", "protocol"}, "a replay talks to no frontend"},
	{"fleet", []string{"workload", "report", "journal", "faults", "replay", "live", "server", "job"},
		"a fleet serves requests of any world"},
	{"engine", []string{"engines", "workload", "router", "report", "replay", "live", "job"},
		"an engine knows only its own requests"},
	{"engines", []string{"workload", "router", "report", "replay", "live", "job"},
		"an engine knows only its own requests"},
	{"engineargs", []string{"workload", "router", "report", "replay", "live", "job"},
		"engine arguments describe one engine"},
}

// impure is what the simulation must not see; the shells may. Generators of random numbers are math/rand/v2 with a seed
// that is passed in.
var impure = []string{"time", "os", "net", "sync", "sync/atomic", "runtime", "log", "math/rand"}

var shells = []string{
	"aic/session", "cachetrace", "calibration", "fieldtable", "frontend", "job", "job/memory", "leaktest", "live",
	"live/bus", "live/bus/bustest",
	"live/connlimit", "enginemetrics", "live/freeport", "guard", "live/plane", "live/publish", "live/publish/zmtp",
	"live/rendezvous", "serve", "live/store", "live/store/etcd", "live/store/kubernetes",
	"live/store/kubernetes/apiserver", "pace", "protocol/card",
	"server/answers", "server/backend", "server/deployment", "server/detokenize", "server/openai", "server/tokens",
	"timing/profile", "truth/passes",
}

// imports returns what each package of the core and of the bindings imports, as import paths.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...", "../bindings/...").
		Output()
	if err != nil {
		t.Fatal(err)
	}
	graph := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if name, _ := ours(words[0]); name != "gocore" { // this folder itself
			graph[name] = words[1:]
		}
	}
	return graph
}

// TestImports compares the imports of each package with its row.
func TestImports(t *testing.T) {
	graph := imports(t)
	area, rows := map[string]int{}, map[string][]string{}
	for i, a := range areas {
		for name, allowed := range a.rows {
			area[name], rows[name] = i, allowed
		}
	}
	for name, imported := range graph {
		if _, known := rows[name]; !known {
			t.Errorf("package %s has no row in areas", name)
		}
		for _, other := range imported {
			below, found := ours(other)
			if found && !slices.Contains(rows[name], below) {
				t.Errorf("package %s must not import %s", name, below)
			}
			if found && area[below] > area[name] {
				t.Errorf("package %s (%s) must not import %s (%s), which stands above it", name, areas[area[name]].name,
					below, areas[area[below]].name)
			}
			if slices.Contains(impure, other) && !slices.Contains(shells, name) && !within(name, "bindings") {
				t.Errorf("package %s must not import %s", name, other)
			}
		}
	}
	for name := range rows {
		if _, exists := graph[name]; !exists {
			t.Errorf("areas has a row for %s, which does not exist", name)
		}
	}
}

// TestApart follows imports of imports.
func TestApart(t *testing.T) {
	graph := imports(t)
	for name := range graph {
		needed := map[string]bool{}
		follow(graph, name, needed)
		for _, rule := range apart {
			if !within(name, rule.tree) {
				continue
			}
			for other := range needed {
				if within(other, rule.needs...) {
					t.Errorf("package %s must not need %s: %s", name, other, rule.why)
				}
			}
		}
	}
}

// follow adds all packages of this repository that a package needs.
func follow(graph map[string][]string, name string, needed map[string]bool) {
	for _, other := range graph[name] {
		if below, found := ours(other); found && !needed[below] {
			needed[below] = true
			follow(graph, below, needed)
		}
	}
}

// concurrent is a line that starts a goroutine or waits for several.
var concurrent = regexp.MustCompile(`^\s*(go func|go [a-zA-Z.]+\(|select \{)`)

// TestNoGoroutines looks for go statements: the core computes, its shells wait, and only live workers and replay on the
// clock do several things at once. It reads every file, so that the cache of test results knows when one has changed.
func TestNoGoroutines(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		name := filepath.ToSlash(filepath.Dir(file))
		if within(name, "frontend", "guard", "live", "serve", "server", "pace") && slices.Contains(shells, name) {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if concurrent.MatchString(line) {
				t.Errorf("the core starts a goroutine or waits: %s: %s", file, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// within reports whether a package is one of these trees of packages.
func within(name string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return name == tree ||
			strings.HasPrefix(name, tree+"/")
	})
}
