package fieldtable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dynosim/gocore/strictjson"
)

// TestKeep: a file that differs is an error that says how to write it anew, and that rewriting corrects it.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keep(path, "new", false); err == nil ||
		!strings.HasSuffix(err.Error(), "page.md is stale: run make generate") {
		t.Errorf("got %v", err)
	}
	for _, rewrite := range []bool{true, false} {
		if err := keep(path, "new", rewrite); err != nil {
			t.Error(err)
		}
	}
}

// TestKeepArgs: only the list of arguments in the docstring of the class is replaced.
func TestKeepArgs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "module.py")
	const module = "\nclass Other(Base):\n    \"\"\"It.\n\n    Args:\n        a: A.\n\n    \"\"\"\n\nclass " +
		"Mine(Base):\n    \"\"\"It.\n\n    Args:\n" +
		"        old: Old.\n\n    Raises nothing.\n    \"\"\"\n"
	if err := os.WriteFile(path, []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []Row{Of(strictjson.Field{Name: "size", Type: strictjson.Integer{Min: 1}, Doc: "In tokens."})}
	rows[0].Instead, rows[0].Works = 4, "`engine_type` vllm"
	if err := keepArgs(path, "Mine", rows, true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	want := strings.Replace(module, "        old: Old.\n",
		"        size: In tokens. Default: 4. Works with ``engine_type`` vllm.\n", 1)
	if err != nil || string(got) != want {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
	if err := keepArgs(path, "Missing", rows, false); err == nil {
		t.Error("a class that is not there is no error")
	}
}
