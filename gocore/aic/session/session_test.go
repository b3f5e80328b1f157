package session

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

// sdk counts what it is asked.
type sdk struct{ asked []string }

// sessions is how many were opened: predictions of a session are remembered for the life of the process.
var sessions atomic.Int32

func (s *sdk) ask(question string) (string, error) {
	s.asked = append(s.asked, question)
	switch {
	case strings.HasPrefix(question, `{"open"`):
		return fmt.Sprintf(`{"session":%d,"version":"2","release":"9","alias":"org/m"}`, -sessions.Add(1)), nil
	case strings.HasPrefix(question, `{"capacity"`):
		return `{"blocks":100}`, nil
	default:
		return `{"ms":[5` + strings.Repeat(",5", strings.Count(question, "],[")) + `],"errors":{}}`, nil
	}
}

func TestSet(t *testing.T) {
	args, _, err := engineargs.ParseLive(`{"aic_backend":"vllm","aic_model_path":"m-Instruct","aic_attention_dp_size":4}`)
	if err != nil {
		t.Fatal(err)
	}
	s := &sdk{}
	set := NewSet(s.ask)
	for _, ranks := range []int{1, 4} {
		sized, err := set.WithPool("here", args, ranks)
		if err != nil || sized.NumGPUBlocks != 100*ranks || sized.Capacity != (aic.Capacity{}) {
			t.Errorf("got %d blocks, %v", sized.NumGPUBlocks, err)
		}
		if again, err := set.WithPool("here", sized, ranks); err != nil || again.NumGPUBlocks != sized.NumGPUBlocks {
			t.Errorf("got %d blocks, %v", again.NumGPUBlocks, err)
		}
	}
	scaled := args
	scaled.Knobs.KVPoolScale = 0.777
	if sized, err := set.WithPool("here", scaled, 2); err != nil || sized.NumGPUBlocks != 155 { // of 200
		t.Errorf("got %d blocks, %v", sized.NumGPUBlocks, err)
	}
	if w := set.Warnings(); len(w) != 1 || w[0] != "here: aic_model_path: the AIC SDK knows m-Instruct as org/m" {
		t.Errorf("got %q", w)
	}
	if len(s.asked) != 4 { // one session, three estimates
		t.Errorf("asked %q", s.asked)
	}
}

// TestOfDurations: durations are of the kernels that a profile names, or of the engine's own where there are none.
func TestOfDurations(t *testing.T) {
	args, _, err := engineargs.ParseLive(`{"aic_backend":"vllm","aic_model_path":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	reason := "aic_model_path: no predictions"
	backends := func(missing string) (opened string, warnings []string) {
		set := NewSet(func(question string) (string, error) {
			if missing != "" && strings.Contains(question, missing) {
				return `{"error":"` + reason + `"}`, nil
			}
			return `{"session":1,"version":"2","release":"9"}`, nil
		})
		for range 2 {
			session, err := set.OfDurations("here", args)
			if err != nil {
				return err.Error(), nil
			}
			opened = session.Config.Backend
		}
		return opened, set.Warnings()
	}
	if got, _ := backends(""); got != "vllm" {
		t.Errorf("got %s", got)
	}
	args.Kernels = args.AIC
	args.Kernels.Backend = "sglang"
	if got, warnings := backends(""); got != "sglang" || len(warnings) != 0 {
		t.Errorf("got %s, %q", got, warnings)
	}
	want := "here: calibration: durations are of the engine's own kernels, as there are none of those that it was " +
		"fitted with: aic_model_path: no predictions"
	if got, warnings := backends("sglang"); got != "vllm" || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("got %s, %q", got, warnings)
	}
	reason = "aic_backend: got sglang, want vllm"
	if got, _ := backends("sglang"); got != "here: calibration: kernels: aic_backend: got sglang, want vllm" {
		t.Errorf("got %s", got)
	}
	reason = "aic_model_path: no predictions"
	if got, _ := backends("model"); got != "here: aic_model_path: no predictions" {
		t.Errorf("got %s", got)
	}
}

// TestPoolOfKernelsThatStandIn: the KV pool is that of the engine's own data types; if the SDK knows no kernels for
// them, the ones that stand in have the same, but not those of another backend.
func TestPoolOfKernelsThatStandIn(t *testing.T) {
	for _, test := range []struct{ missing, backend, want string }{
		{"", "sglang", "own"}, {`"own"`, "sglang", "other"}, {`"own"`, "trtllm", ""},
	} {
		args, _, err := engineargs.ParseLive(`{"aic_backend":"sglang","aic_model_path":"m","aic_fmha_dtype":"own"}`)
		if err != nil {
			t.Fatal(err)
		}
		args.Kernels = args.AIC
		args.Kernels.Backend, args.Kernels.Types.FMHA = test.backend, "other"
		opened := ""
		sized, err := NewSet(func(question string) (string, error) {
			switch {
			case test.missing != "" && strings.Contains(question, test.missing):
				return `{"error":"aic_model_path: no predictions"}`, nil
			case strings.HasPrefix(question, `{"capacity"`):
				return `{"blocks":100}`, nil
			}
			for _, name := range []string{"own", "other"} {
				if strings.Contains(question, `"`+name+`"`) {
					opened = name
				}
			}
			return `{"session":1,"version":"2","release":"9"}`, nil
		}).WithPool("here", args, 1)
		if opened != test.want || (err == nil) != (test.want != "") || err == nil && sized.NumGPUBlocks != 100 {
			t.Errorf("%+v: got %q, %d blocks, %v", test, opened, sized.NumGPUBlocks, err)
		}
	}
}

func TestPredictions(t *testing.T) {
	s := &sdk{}
	set := NewSet(s.ask)
	opened, err := set.Open("here", aic.Config{Backend: "vllm"})
	if err != nil {
		t.Fatal(err)
	}
	question := []timing.Question{{Kind: timing.Decode, Batch: 3, Tokens: 77}}
	for range 3 {
		if answers, err := opened.Predict(question); err != nil || answers[0] != (timing.Answer{Ms: 5}) {
			t.Errorf("got %v, %v", answers, err)
		}
	}
	if len(s.asked) != 2 {
		t.Errorf("asked %q", s.asked)
	}
	grid := opened.Predictions(true)
	if answers, err := grid([]timing.Question{{Kind: timing.Decode, Batch: 3, Tokens: 81}}); err != nil ||
		answers[0].Ms != 5 {
		t.Errorf("between shapes: got %v, %v", answers, err)
	}
	if len(s.asked) != 3 || !strings.HasSuffix(opened.Name(true), ", grid of shapes") ||
		opened.Name(false) != opened.Config.Name() {
		t.Errorf("asked %q, %s", s.asked, opened.Name(true))
	}
	broken := opened.Through(func(string) (string, error) { return "", errors.New("gone") })
	if answers, err := broken.Predict(question); err != nil || answers[0].Ms != 5 {
		t.Errorf("what is known: got %v, %v", answers, err)
	}
	question[0].Tokens = 78
	if _, err := broken.Predict(question); err == nil || err.Error() != "gone" {
		t.Errorf("what is not: got %v", err)
	}
	if _, err := NewSet(nil).Open("here", aic.Config{}); err == nil ||
		!strings.Contains(err.Error(), "come from Python") {
		t.Errorf("got %v", err)
	}
}
