package calibration

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
)

// Format is the value of the key "format" of a profile.
const Format = "dynosim-calibration/1"

// Auto is the name that stands for the shipped profile.
const Auto = "auto"

// Profile is fitted knobs.
type Profile struct {
	Entries []Entry
}

// Entry is what the knobs of some engines came to. A knob that is nil was not fitted.
type Entry struct {
	Level string `json:"level"` // "model", "kin", "gpu" or "engine"
	// Engine, Timing and Scheduler are those of the replays that were compared with measurements: "vllm"; "aic", "interpolated"
	// or "polynomial"; "dynamo" or the engine's name.
	Engine    string `json:"engine"`
	Timing    string `json:"timing"`
	Scheduler string `json:"scheduler"`
	// System, Model and Precision say what was measured, as far as the level goes and the measurements say.
	System    string `json:"system"`
	Model     string `json:"model"`
	Precision string `json:"precision"`

	Measurements int    `json:"measurements"`
	Note         string `json:"note"` // what a user has to know, "" for nothing

	Knobs Values `json:"knobs"`
	// KVTokens is the size of the KV pool of the engine that was measured, in tokens; 0 if that is not known.
	KVTokens int `json:"kv_tokens"`
}

// Values are those of the knobs; see engineargs.Knobs.
type Values struct {
	StepOverheadUs    *float64 `json:"step_overhead_us"`
	SeqOverheadUs     *float64 `json:"seq_overhead_us"`
	RequestOverheadUs *float64 `json:"request_overhead_us"`
	PrefillScale      *float64 `json:"prefill_scale"`
	DecodeScale       *float64 `json:"decode_scale"`
	KVPoolScale       *float64 `json:"kv_pool_scale"`
}

//go:embed shipped/profile.json
var shipped []byte

// Shipped is the profile that is part of the program. It is read once, as a sweep asks for it with every run.
var Shipped = sync.OnceValue(func() Profile {
	p, err := Parse(shipped)
	if err != nil {
		panic("calibration: the shipped profile is refused: " + err.Error())
	}
	return p
})

// Parse reads a profile. Errors do not name the file.
func Parse(text []byte) (Profile, error) {
	var file struct {
		Format  string          `json:"format"`
		Fit     json.RawMessage `json:"fit"` // how it was made, for people
		Entries []Entry         `json:"entries"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return Profile{}, fmt.Errorf("not a calibration profile: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Profile{}, errors.New("not a calibration profile: there is more than one JSON value")
	}
	if file.Format != Format {
		return Profile{}, fmt.Errorf("format: got %q, want %q", file.Format, Format)
	}
	for i, e := range file.Entries {
		if err := e.check(); err != nil {
			return Profile{}, fmt.Errorf("entries[%d]: %w", i, err)
		}
	}
	return Profile{Entries: file.Entries}, nil
}

func (e *Entry) check() error {
	if !slices.Contains(levels, e.Level) {
		return fmt.Errorf("level: got %q, want one of model, kin, gpu, engine", e.Level)
	}
	if e.Engine == "" || e.Timing == "" {
		return errors.New("engine and timing: want both given")
	}
	if e.KVTokens < 0 || e.Measurements < 0 {
		return errors.New("kv_tokens and measurements: want integers >= 0")
	}
	for _, k := range knobs {
		value := k.fitted(e.Knobs)
		if value != nil && (math.IsNaN(*value) || *value < 0 || *value > k.most || k.factor && *value == 0) {
			return fmt.Errorf("knobs: %s: got %v, want it within its bounds", k.name, *value)
		}
	}
	return nil
}
