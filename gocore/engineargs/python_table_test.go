package engineargs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
	"dynosim/gocore/speculation"
	"dynosim/gocore/strictjson"
)

//go:generate go test . -run ^TestPythonTable$ -rewrite

var rewrite = flag.Bool("rewrite", false, "write the copy of the field table that the Python classes read")

const pythonTable = "../../python/dynamo/_core/engine_args.json"

// TestPythonTable keeps the Python classes in step with fields.go.
func TestPythonTable(t *testing.T) {
	want := encodeTable(t)
	if *rewrite {
		if err := os.WriteFile(pythonTable, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pythonTable)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("engine_args.json is stale: run go generate ./gocore/engineargs")
	}
}

// encodeTable writes the table and what else the classes have to know.
func encodeTable(t *testing.T) []byte {
	var nested, sizes []string
	for _, f := range table {
		if inner, ok := f.Type.(strictjson.Nested); ok {
			nested = append(nested, fmt.Sprintf("    %q: %s", f.Name, encodeFields(t, "    ", inner.Fields)))
		}
	}
	for _, spec := range engineTypes {
		sizes = append(sizes, fmt.Sprintf("%q: %d", spec.Name, spec.BlockSize))
	}
	rates, err := json.Marshal(speculation.DefaultRates)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "{\n  \"fields\": %s,\n  \"block_size_default\": {%s},\n  \"accept_rates_default\": %s,\n  \"nested\": {\n%s\n  }\n}\n",
		encodeFields(t, "  ", schema().Fields), strings.Join(sizes, ", "), rates, strings.Join(nested, ",\n"))
}

func encodeFields(t *testing.T, indent string, fields []strictjson.Field) string {
	text, err := fieldtable.List(fields, indent, func(r *fieldtable.Row) {
		if r.Name == "num_gpu_blocks" {
			r.ArgDefault = nil // the constructor's None, which stands for the default
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
