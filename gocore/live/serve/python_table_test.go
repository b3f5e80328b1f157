package serve

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
	"dynosim/gocore/strictjson"
)

//go:generate go test . -run ^TestPythonTable$ -rewrite

var rewrite = flag.Bool("rewrite", false, "write the copy of the options that the Python command line reads")

const pythonTable = "../../../python/dynamo/_core/live_options.json"

// TestPythonTable keeps dynamo.mocker.args.parse_args in step with options.go.
func TestPythonTable(t *testing.T) {
	want := encodeTable(t)
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
		t.Fatal("live_options.json is stale: run go generate ./gocore/live/serve")
	}
}

// encodeTable writes the options, and which engine arguments they set: those have the defaults.
func encodeTable(t *testing.T) string {
	var fields []strictjson.Field
	var args []string
	for _, o := range options {
		fields = append(fields, o.Field)
		if o.engineArg != "" && !strings.Contains(o.engineArg, ".") {
			args = append(args, fmt.Sprintf("    %q: %q", o.Name, o.engineArg))
		}
	}
	list, err := fieldtable.List(fields, "  ", func(r *fieldtable.Row) {
		if r.Name == "kv_transfer_bandwidth" {
			r.ArgDefault = standardBandwidthGBs
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return "{\n  \"fields\": " + list + ",\n  \"engine_args\": {\n" + strings.Join(args, ",\n") + "\n  }\n}\n"
}
