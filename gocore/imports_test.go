// Package gocore_test keeps the structure of the core honest: who may import whom, and that the simulation itself never
// sees a clock, a file, a network or a goroutine.
package gocore_test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "dynosim/gocore/"

// mayImport lists, for each package, the packages of the core it may import. A new package needs a row here.
var mayImport = map[string][]string{
	"spelling":              {},
	"strictjson":            {"spelling"},
	"fieldtable":            {"strictjson"},
	"aic":                   {"speculation", "strictjson", "timing"},
	"aic/session":           {"aic", "engineargs", "timing"},
	"engineargs":            {"aic", "engine", "speculation", "strictjson"},
	"job/memory":            {},
	"timing":                {},
	"timing/profile":        {"spelling", "timing"},
	"speculation":           {},
	"kvcache":               {},
	"kvcache/paged":         {"kvcache"},
	"kvcache/radix":         {"kvcache"},
	"engine":                {"handoff", "kvcache", "speculation", "timing"},
	"engine/transit":        {"engine"},
	"engine/vllm":           {"engine", "engine/transit", "engineargs", "handoff", "kvcache", "kvcache/paged", "speculation", "timing"},
	"engine/sglang":         {"engine", "engine/transit", "engineargs", "handoff", "kvcache", "kvcache/radix", "speculation", "timing"},
	"engine/vllmv1":         {"engine", "engineargs", "kvcache", "kvcache/paged", "timing"},
	"engine/sglangsrt":      {"engine", "engineargs", "kvcache", "kvcache/radix", "timing"},
	"worker":                {"engine", "engine/sglang", "engine/sglangsrt", "engine/vllm", "engine/vllmv1", "engineargs", "strictjson"},
	"eventheap":             {},
	"handoff":               {},
	"workload":              {"eventheap", "kvcache", "spelling"},
	"router":                {"kvcache", "strictjson", "timing"},
	"report":                {"engine", "workload"},
	"replay":                {"engine", "engineargs", "eventheap", "handoff", "kvcache", "report", "router", "timing", "worker", "workload"},
	"job/tracestats":        {"workload"},
	"truth":                 {"engine", "engineargs", "replay", "workload"},
	"truth/passes":          {"truth"},
	"cachetrace":            {"engine", "engineargs", "kvcache", "worker"},
	"pace":                  {},
	"replay/online":         {"engine", "kvcache", "pace", "replay", "report", "router", "timing", "worker", "workload"},
	"protocol":              {},
	"protocol/wire":         {},
	"protocol/bootstrap":    {"handoff"},
	"live/rendezvous":       {"handoff", "protocol/bootstrap", "live/guard"},
	"protocol/card":         {},
	"live/bus":              {"live/guard"},
	"live/bus/bustest":      {},
	"protocol/discovery":    {},
	"live/store":            {"live/guard", "protocol/discovery"},
	"live/store/etcd":       {"protocol/discovery", "live/guard"},
	"live/store/kubernetes": {"protocol/discovery", "live/guard"},
	"live/connlimit":        {"live/guard"},
	"live/freeport":         {},
	"leaktest":              {},
	"live/plane":            {"live/bus", "live/connlimit", "live/guard", "protocol/wire"},
	"live":                  {"cachetrace", "engine", "engineargs", "handoff", "kvcache", "live/blocks", "protocol/bootstrap", "live/bus", "protocol/card", "protocol/discovery", "live/guard", "pace", "live/plane", "live/publish", "live/rendezvous", "protocol/wire", "speculation", "timing", "worker"},
	"live/serve":            {"aic/session", "cachetrace", "engine", "engineargs", "live", "live/bus", "protocol/card", "live/connlimit", "protocol/discovery", "live/store", "live/store/etcd", "live/store/kubernetes", "live/guard", "live/plane", "strictjson", "timing/profile", "worker"},
	"live/blocks":           {"kvcache"},
	"live/guard":            {},
	"live/publish/events":   {"engine", "kvcache", "live/blocks"},
	"live/publish/zmtp":     {"live/guard"},
	"live/publish":          {"engine", "live/blocks", "live/bus", "protocol/discovery", "live/publish/events", "live/guard", "live/plane", "protocol/wire", "live/publish/zmtp"},
	"job":                   {"aic", "aic/session", "cachetrace", "engine", "engineargs", "handoff", "replay/online", "job/memory", "replay", "report", "router", "speculation", "spelling", "strictjson", "timing", "timing/profile", "job/tracestats", "worker", "workload"},
}

// impure is what the simulation must not see; the shells may. Generators of random numbers are math/rand/v2 with a seed
// that is passed in.
var impure = []string{"time", "os", "net", "sync", "sync/atomic", "runtime", "log", "math/rand"}

var shells = []string{
	"aic/session", "cachetrace", "job", "live", "live/bus", "live/bus/bustest", "protocol/card", "live/connlimit", "live/store", "live/store/etcd",
	"live/store/kubernetes", "live/freeport", "live/guard", "leaktest", "replay/online", "pace", "live/plane", "live/publish", "live/rendezvous", "live/serve",
	"live/publish/zmtp", "job/memory", "timing/profile", "truth/passes",
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name, found := strings.CutPrefix(words[0], module)
		if !found {
			continue // this folder itself
		}
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("package %s has no row in mayImport", name)
		}
		for _, imported := range words[1:] {
			if ours, found := strings.CutPrefix(imported, module); found && !slices.Contains(allowed, ours) {
				t.Errorf("package %s must not import %s", name, ours)
			}
			if slices.Contains(impure, imported) && !slices.Contains(shells, name) {
				t.Errorf("package %s must not import %s", name, imported)
			}
		}
	}
}

// TestNoGoroutines looks for go statements: the core computes, its shells wait, and only live workers and replay on the clock
// do several things at once.
func TestNoGoroutines(t *testing.T) {
	out, err := exec.Command("grep", "-rnE", `^\s*(go func|go [a-zA-Z.]+\(|select \{)`, "--include=*.go", "--exclude=*_test.go", ".").Output()
	if err != nil {
		return // nothing found
	}
	for line := range strings.Lines(string(out)) {
		name := path.Dir(strings.TrimPrefix(line[:strings.Index(line, ":")], "./"))
		if !within(name, "live", "replay/online", "pace") || !slices.Contains(shells, name) {
			t.Errorf("the core starts a goroutine or waits: %s", line)
		}
	}
}

// within reports whether a package is one of these trees of packages.
func within(name string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return name == tree || strings.HasPrefix(name, tree+"/") })
}
