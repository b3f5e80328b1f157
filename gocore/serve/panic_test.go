package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPanicIsAnError: a panic in a goroutine of the workers would end the Python interpreter.
func TestPanicIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engine.json")
	if err := os.WriteFile(file, []byte(`{"aic_backend":"vllm","aic_model_path":"m"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	config, _ := json.Marshal(map[string]any{
		"model_path": t.TempDir(), "discovery_backend": "mem", "extra_engine_args": file,
		"environment": []string{"DYN_LOG=off"},
	})
	err := Run(string(config), NewStop(), func(string) (string, error) { panic("broken") })
	if err == nil || Kind(err) != "failed" || !strings.HasPrefix(err.Error(), "internal: broken\n") {
		t.Errorf("got %v", err)
	}
}
