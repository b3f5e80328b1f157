// Package scripttest runs the scripts of tests: files of commands with the results that they have to have. A script
// opens with prose; the flag -rewrite of a test writes all results anew.
package scripttest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Run runs the .txt files of a folder, each as a test of its own. show returns the result of a command.
func Run(t *testing.T, folder string, show func(*testing.T, *datadriven.TestData) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { datadriven.RunTest(t, file, show) })
	}
}

// RunOnly does what Run does, for scripts that know one command only.
func RunOnly(t *testing.T, folder, command string, show func(*testing.T, *datadriven.TestData) string) {
	t.Helper()
	Run(t, folder, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != command {
			d.Fatalf(t, "got command %q, want %q", d.Cmd, command)
		}
		return show(t, d)
	})
}
