package guard

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPanicReachesAllWatchers(t *testing.T) {
	first, second := make(chan error, 1), make(chan error, 1)
	stopFirst := Watch(func(err error) { first <- err })
	stopSecond := Watch(func(err error) { second <- err })
	go Func(func() { panic("broken") })()
	for _, failed := range []chan error{first, second} {
		if err := <-failed; !strings.Contains(err.Error(), "internal: broken") ||
			!strings.Contains(err.Error(), "guard_test.go") {
			t.Errorf("got %v, want the cause and the stack", err)
		}
	}
	stopFirst()
	Func(func() { panic("again") })()
	if err := <-second; !strings.Contains(err.Error(), "again") {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-first:
		t.Errorf("a watcher that has stopped got %v", err)
	default:
	}
	stopSecond()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	Func(func() { panic("unseen") })()
	slog.SetDefault(before)
	if !strings.Contains(log.String(), "unseen") {
		t.Errorf("logged %q", log.String())
	}
}

// recovering are functions that recover by themselves, so that a panic fails one run, worker or request instead of the
// process of workers.
var recovering = []string{"job/parallel.go", "border/call.go", "live/runner.go"}

// TestEveryGoroutineIsGuarded: a panic in a goroutine without recover would end the user's interpreter.
func TestEveryGoroutineIsGuarded(t *testing.T) {
	found := 0
	for _, root := range []string{"../../gocore", "../../bindings"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if slices.ContainsFunc(recovering, func(name string) bool { return strings.HasSuffix(path, name) }) {
				return nil
			}
			for _, place := range unguarded(t, path, &found) {
				t.Errorf("%s: start it as guard.Func(…)", place)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("found only %d goroutines: is the search broken?", found)
	}
}

// unguarded lists where a file starts a goroutine by go, WaitGroup.Go or AfterFunc without guard.Func.
func unguarded(t *testing.T, path string, found *int) (places []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	check := func(at token.Pos, started ast.Expr) {
		*found++
		if call, ok := started.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Func" {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "guard" {
					return
				}
			}
		}
		places = append(places, files.Position(at).String())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			check(n.Pos(), n.Call.Fun)
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 &&
				(s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") {
				check(n.Pos(), n.Args[len(n.Args)-1])
			}
		}
		return true
	})
	return places
}
