package border

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

func TestPanicBecomesAnError(t *testing.T) {
	c := NewCall(0)
	_, err := c.Start(func(error) string { return "usage" }, func() (string, error) {
		var missing *Call
		missing.asked = true
		return "", nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), Internal+"\x1f") || !strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("got %v, want an internal error with the cause in it", err)
	}
}

// TestEveryExportRecovers: gopy recovers nothing, so each function that it exports has to.
func TestEveryExportRecovers(t *testing.T) {
	exports := 0
	for _, pattern := range []string{"../*.go", "../live/*.go"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || !f.Name.IsExported() || strings.HasSuffix(path, "_test.go") {
					continue
				}
				exports++
				first, ok := f.Body.List[0].(*ast.DeferStmt)
				if ok {
					var called *ast.SelectorExpr
					called, ok = first.Call.Fun.(*ast.SelectorExpr)
					ok = ok && (called.Sel.Name == "Guard" || called.Sel.Name == "Quiet")
				}
				if !ok {
					t.Errorf("%s: %s must begin with defer border.Guard or border.Quiet", path, f.Name)
				}
			}
		}
	}
	if exports < 15 {
		t.Errorf("found only %d exported functions", exports)
	}
}

func TestTextIsSafeForC(t *testing.T) {
	if got, want := Clean("a\x00b\xffc"), "a\uFFFDb\uFFFDc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNoImports: what the facades share knows none of the packages that they make available.
func TestNoImports(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if strings.Contains(imported.Path.Value, "dynosim/") {
				t.Errorf("%s imports %s", path, imported.Path.Value)
			}
		}
	}
}
