package planner

import (
	"encoding/json"
	"slices"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

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
	fieldtable.Keep(t, "../../python/dynamo/_core/autoscaler_generated.json", string(text)+"\n")
}
