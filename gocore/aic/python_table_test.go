package aic

import (
	"flag"
	"os"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestPythonTable$ -rewrite

var rewrite = flag.Bool("rewrite", false, "write the copy of the field table that the Python class reads")

const pythonTable = "../../python/dynamo/_core/aic_perf_config.json"

// TestPythonTable keeps the Python class in step with config.go.
func TestPythonTable(t *testing.T) {
	list, err := fieldtable.List(Fields, "  ", func(*fieldtable.Row) {})
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"fields\": " + list + "\n}\n"
	if *rewrite {
		if err := os.WriteFile(pythonTable, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pythonTable)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("aic_perf_config.json is stale: run go generate ./gocore/aic")
	}
}
