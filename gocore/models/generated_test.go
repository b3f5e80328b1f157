package models

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

// TestGeneratedTable keeps the list that "python -m dynamo.replay models" prints: the layout on one GPU, or on as few
// as share all heads.
func TestGeneratedTable(t *testing.T) {
	var rows []string
	for _, f := range Table() {
		l, err := f.Layout(Shape{Ranks: 1})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("  {\"model\": %q, \"full_layers\": %d, \"window_layers\": %d, "+
			"\"linear_layers\": %d, \"window\": %d, "+
			"\"groups\": %d, \"block_size\": %d, \"block_bytes\": %d, \"max_model_len\": %d, \"weights_gib\": %v, "+
			"\"weights_source\": %q, \"source\": %q}",
			f.Name, f.Full, f.Window, f.Linear, f.WindowTokens, l.Groups(), l.BlockSize, l.BlockBytes, f.MaxLen,
			f.WeightsGiB, f.WeightsSource, f.Source))
	}
	fieldtable.Keep(t, "../../python/dynamo/_core/models_generated.json", "[\n"+strings.Join(rows, ",\n")+"\n]\n")
}
