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
	"spelling":                  {},
	"strictjson":                {"spelling"},
	"fieldtable":                {"strictjson"},
	"aic":                       {"speculation", "strictjson", "timing"},
	"aic/session":               {"aic", "engineargs", "timing"},
	"engineargs":                {"aic", "engine", "speculation", "strictjson", "timing"},
	"memory":                    {},
	"timing":                    {},
	"timing/profile":            {"timing"},
	"speculation":               {},
	"kvcache":                   {},
	"kvcache/paged":             {"kvcache"},
	"kvcache/radix":             {"kvcache"},
	"engine":                    {"handoff", "kvcache", "speculation", "timing"},
	"engine/intake":             {"engine", "kvcache"},
	"engine/transit":            {"engine"},
	"engine/vllm":               {"engine", "engine/transit", "engineargs", "handoff", "kvcache", "kvcache/paged", "speculation", "timing"},
	"engine/sglang":             {"engine", "engine/transit", "engineargs", "handoff", "kvcache", "kvcache/radix", "speculation", "timing"},
	"engine/vllmv1":             {"engine", "engineargs", "kvcache", "kvcache/paged", "timing"},
	"engine/sglangsrt":          {"engine", "engineargs", "kvcache", "kvcache/radix", "timing"},
	"worker":                    {"engine", "engine/intake", "engine/sglang", "engine/sglangsrt", "engine/vllm", "engine/vllmv1", "engineargs", "strictjson", "timing"},
	"eventheap":                 {},
	"handoff":                   {},
	"workload":                  {"eventheap", "kvcache", "spelling"},
	"router":                    {"kvcache", "strictjson", "timing"},
	"report":                    {"engine", "workload"},
	"replay":                    {"engine", "engineargs", "eventheap", "handoff", "kvcache", "report", "router", "timing", "worker", "workload"},
	"tracestats":                {"workload"},
	"truth":                     {"engine", "engineargs", "replay", "workload"},
	"truth/passes":              {"truth"},
	"calibration":               {"engineargs"},
	"cachetrace":                {"engine", "engineargs", "kvcache", "worker"},
	"live/pace":                 {},
	"live/online":               {"engine", "kvcache", "live/pace", "replay", "report", "router", "timing", "worker", "workload"},
	"live/wire":                 {},
	"live/bootstrap":            {"handoff"},
	"live/rendezvous":           {"handoff", "live/bootstrap", "live/guard"},
	"live/card":                 {},
	"live/bus":                  {"live/guard"},
	"live/bus/bustest":          {},
	"live/discovery":            {"live/guard"},
	"live/discovery/etcd":       {"live/discovery", "live/guard"},
	"live/discovery/kubernetes": {"live/discovery", "live/guard"},
	"live/connlimit":            {"live/guard"},
	"live/freeport":             {},
	"live/leaktest":             {},
	"live/plane":                {"live/bus", "live/connlimit", "live/guard", "live/wire"},
	"live":                      {"cachetrace", "engine", "engineargs", "handoff", "kvcache", "live/blocks", "live/bootstrap", "live/bus", "live/card", "live/discovery", "live/guard", "live/pace", "live/plane", "live/publish", "live/rendezvous", "live/wire", "speculation", "timing", "worker"},
	"live/serve":                {"aic/session", "cachetrace", "engine", "engineargs", "job", "live", "live/bus", "live/card", "live/connlimit", "live/discovery", "live/discovery/etcd", "live/discovery/kubernetes", "live/guard", "live/plane", "strictjson", "worker"},
	"live/blocks":               {"kvcache"},
	"live/guard":                {},
	"live/events":               {"engine", "kvcache", "live/blocks"},
	"live/zmtp":                 {"live/guard"},
	"live/publish":              {"engine", "live/blocks", "live/bus", "live/discovery", "live/events", "live/guard", "live/plane", "live/wire", "live/zmtp"},
	"job":                       {"aic", "aic/session", "cachetrace", "calibration", "engine", "engineargs", "handoff", "live/online", "memory", "replay", "report", "router", "speculation", "strictjson", "timing", "timing/profile", "tracestats", "worker", "workload"},
}

// impure is what the simulation must not see; the shells may. Generators of random numbers are math/rand/v2 with a seed
// that is passed in.
var impure = []string{"time", "os", "net", "sync", "sync/atomic", "runtime", "log", "math/rand"}

var shells = []string{
	"aic/session", "cachetrace", "job", "live", "live/bus", "live/bus/bustest", "live/card", "live/connlimit", "live/discovery", "live/discovery/etcd",
	"live/discovery/kubernetes", "live/freeport", "live/guard", "live/leaktest", "live/online", "live/pace", "live/plane", "live/publish", "live/rendezvous", "live/serve",
	"live/zmtp", "memory", "truth/passes",
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

// TestNoGoroutines looks for go statements: the core computes, its shells wait, and only those of live workers do several
// things at once.
func TestNoGoroutines(t *testing.T) {
	out, err := exec.Command("grep", "-rnE", `^\s*(go func|go [a-zA-Z.]+\(|select \{)`, "--include=*.go", "--exclude=*_test.go", ".").Output()
	if err != nil {
		return // nothing found
	}
	for line := range strings.Lines(string(out)) {
		name := path.Dir(strings.TrimPrefix(line[:strings.Index(line, ":")], "./"))
		if !strings.HasPrefix(name, "live") || !slices.Contains(shells, name) {
			t.Errorf("the core starts a goroutine or waits: %s", line)
		}
	}
}
