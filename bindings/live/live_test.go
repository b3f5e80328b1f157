package live

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dynosim/bindings/border"
)

// asksAtStart starts workers that have a question for the SDK before they serve.
func asksAtStart(t *testing.T) int64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "engine.json")
	if err := os.WriteFile(file, []byte(`{"aic_backend":"vllm","aic_model_path":"m"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	config, _ := json.Marshal(map[string]any{"model_path": t.TempDir(), "discovery_backend": "mem",
		"extra_engine_args": file, "environment": []string{"DYN_LOG=off"}})
	id := Open()
	t.Cleanup(func() { Close(id) })
	if text, err := Serve(id, string(config)); err != nil || !strings.HasPrefix(text, border.Enquiry+`{"open":`) {
		t.Fatalf("got %q, %v", text, err)
	}
	return id
}

// TestStopWhileAsking: workers that are asked to end while Python is busy with their question end at once.
func TestStopWhileAsking(t *testing.T) {
	for name, stop := range map[string]func(int64){"drain": Drain, "cancel": Cancel} {
		id := asksAtStart(t)
		if Ended(id) != 0 {
			t.Fatalf("%s: ended too early", name)
		}
		stop(id)
		for deadline := time.Now().Add(time.Minute); Ended(id) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it goes on", name)
			}
		}
		if text, err := Answer(id, `{"session":-9,"version":"1"}`); err != nil || text != "" {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
	if Ended(-1) != 0 {
		t.Error("an unknown run has ended")
	}
}

func TestServeSaysWhatTheSDKRefuses(t *testing.T) {
	_, err := Answer(asksAtStart(t), `{"error":"aic_system: got \"x\""}`)
	if err == nil || !strings.HasPrefix(err.Error(), "usage\x1f") {
		t.Errorf("got %v", err)
	}
}
