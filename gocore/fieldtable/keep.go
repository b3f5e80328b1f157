package fieldtable

import (
	"fmt"
	"os"
	"strings"
)

// Keep compares a generated file with what it should contain; with rewrite it writes it first. The error of a file that
// differs names the folder for go generate.
func Keep(path, want, folder string, rewrite bool) error {
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
		return fmt.Errorf("%s is stale: run go generate %s", strings.TrimLeft(path, "./"), folder)
	}
	return nil
}

// KeepArgs is Keep for the section "Args:" in the docstring of a Python class; the rest of the module is not generated.
func KeepArgs(path, class string, rows []Row, folder string, rewrite bool) error {
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
	return Keep(path, before+"\nclass "+class+"("+head+argsTitle+Args(rows)+"\n"+after, folder, rewrite)
}
