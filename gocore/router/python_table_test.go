package router

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestPythonTable$ -rewrite-table

var rewriteTable = flag.Bool("rewrite-table", false, "write the copy of the field table that the Python class reads")

const pythonTable = "../../python/dynamo/_core/router_config.json"

// TestPythonTable keeps the Python class in step with fields.go.
func TestPythonTable(t *testing.T) {
	want := encodeTable(t)
	if *rewriteTable {
		if err := os.WriteFile(pythonTable, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pythonTable)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("router_config.json is stale: run go generate ./gocore/router")
	}
}

// encodeTable adds the hint that belongs to one message.
func encodeTable(t *testing.T) []byte {
	list, err := fieldtable.List(schema().Fields, "  ", func(r *fieldtable.Row) {
		if r.Name == "overlap_score_credit" {
			r.Want += moreWeight
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return []byte("{\n  \"fields\": " + list + "\n}\n")
}
