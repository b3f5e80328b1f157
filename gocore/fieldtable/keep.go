package fieldtable

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	_ "github.com/cockroachdb/datadriven" // registers -rewrite
)

// Keep fails the test if a generated file is stale. With -rewrite, the flag that also rewrites golden files, it writes
// the file.
func Keep(t *testing.T, path, want string) {
	t.Helper()
	if err := keep(path, want, rewriting()); err != nil {
		t.Fatal(err)
	}
}

// KeepArgs does the same for the section "Args:" in the docstring of a Python class; the rest of the module is not
// generated.
func KeepArgs(t *testing.T, path, class string, rows []Row) {
	t.Helper()
	if err := keepArgs(path, class, rows, rewriting()); err != nil {
		t.Fatal(err)
	}
}

func rewriting() bool {
	return flag.Lookup("rewrite").Value.(flag.Getter).Get().(bool)
}

func keep(path, want string, rewrite bool) error {
	if rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			return err
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("%s is stale: run make generate", strings.TrimLeft(path, "./"))
	}
	return nil
}

func keepArgs(path, class string, rows []Row, rewrite bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), "\nclass "+class+"(")
	head, section, documented := strings.Cut(rest, argsTitle)
	_, after, ended := strings.Cut(section, "\n\n")
	if !found || !documented || !ended {
		return fmt.Errorf("%s: class %s has no docstring with a section Args", path, class)
	}
	return keep(path, before+"\nclass "+class+"("+head+argsTitle+Args(rows)+"\n"+after, rewrite)
}
