package planner

import (
	"encoding/json"
	"flag"
	"slices"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite-table

var rewriteTable = flag.Bool("rewrite-table", false, "write what is generated from the keys of policies")

// TestGeneratedTable keeps the list of keys of policies by which Python knows what a sweep can vary.
func TestGeneratedTable(t *testing.T) {
	names := []string{"policy", "pool"}
	for _, policy := range []string{"hpa", "keda", "queue", "schedule"} {
		for _, key := range policyKeys[policy] {
			if !slices.Contains(names, key) {
				names = append(names, key)
			}
		}
	}
	type field struct {
		Name    string `json:"name"`
		Default any    `json:"default"`
	}
	fields := make([]field, len(names))
	for i, name := range names {
		fields[i].Name = name
	}
	text, err := json.MarshalIndent(map[string]any{"fields": fields}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := fieldtable.Keep("../../python/dynamo/_core/autoscaler.json", string(text)+"\n", "./gocore/planner", *rewriteTable); err != nil {
		t.Fatal(err)
	}
}
