package job

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

func TestParse(t *testing.T) {
	s, err := Parse(synthetic(`"replay_concurrency":4,"arrival_speedup_ratio":2,"max_sim_time_seconds":1.5,
		"sla_itl_ms":20,"num_workers":3,
		"router_mode":"kv_router","seed":7,"save_trace":"t","report_jsonl_path":"r","router_log":"l"`))
	if err != nil {
		t.Fatal(err)
	}
	if !s.synthetic || s.online || s.concurrency != 4 || s.speedup != 2 || s.maxSimTimeMs != 1500 ||
		s.outputs != (outputs{"t", "r", "l"}) {
		t.Errorf("got %+v", s)
	}
	if s.sla.ITLMs != 20 || !math.IsNaN(s.sla.TTFTMs) || s.generated.RequestCount != 3 {
		t.Errorf("got %+v, %+v", s.sla, s.generated)
	}
	if s.deployment.workers != 3 || s.routing.Mode.Name != router.KVMode || s.routing.Config.Seed != 7 {
		t.Errorf("got %+v, %+v", s.deployment, s.routing)
	}
}

// TestParseDefaults: Parse opens no file, and fills in what is not given.
func TestParseDefaults(t *testing.T) {
	s, err := Parse(`{"kind":"trace","trace_files":["missing"],"trace_format":"agentic-mooncake"}`)
	if err != nil {
		t.Fatal(err)
	}
	if s.synthetic || s.concurrency != 0 || s.speedup != 1 || !math.IsInf(s.maxSimTimeMs, 1) ||
		s.outputs != (outputs{}) {
		t.Errorf("got %+v", s)
	}
	if s.trace.format != workload.Agentic || s.trace.blockSize != 0 || s.deployment.workers != 1 ||
		s.routing.Mode.Name != router.RoundRobinMode {
		t.Errorf("got %+v, %+v, %+v", s.trace, s.deployment, s.routing)
	}
}

// TestStagesReadTheSpec follows all calls from the stages of a run: none may arrive at a function that takes the
// untyped description.
func TestStagesReadTheSpec(t *testing.T) {
	functions := declaredFunctions(t)
	reached := map[string]bool{}
	waiting := []string{"load", "check", "simulate", "report"}
	for len(waiting) > 0 {
		name := waiting[0]
		waiting = waiting[1:]
		f := functions[name]
		if f == nil || reached[name] {
			continue
		}
		reached[name] = true
		for _, p := range f.Type.Params.List {
			if star, ok := p.Type.(*ast.StarExpr); ok && isObject(star.X) {
				t.Errorf("%s takes a *strictjson.Object", name)
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				waiting = append(waiting, called(call))
			}
			return true
		})
	}
	if !reached["generate"] || !reached["withWorkers"] || reached["Parse"] {
		t.Errorf("the calls of a run were not followed: reached %v", reached)
	}
}

func isObject(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Object"
}

// called returns the name of the function or method of this package that a call may mean. Those of other packages begin
// with a capital letter, and no stage calls such a one of this package.
func called(call *ast.CallExpr) string {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	if ast.IsExported(name) {
		return ""
	}
	return name
}

// declaredFunctions returns the functions and methods of this package by name.
func declaredFunctions(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]*ast.FuncDecl{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				functions[f.Name.Name] = f
			}
		}
	}
	return functions
}
