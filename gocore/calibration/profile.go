package calibration

import (
	_ "embed"
	"fmt"
	"sync"

	"dynosim/gocore/strictjson"
)

// Format is the value of the key "format" of a profile.
const Format = "dynosim-calibration/1"

// Auto is the name that stands for the shipped profile.
const Auto = "auto"

// Profile is fitted knobs.
type Profile struct {
	Entries []Entry
	// Factors multiply the knobs of the entry that is chosen.
	Factors []Factor
}

// Entry is what the knobs of some engines came to.
type Entry struct {
	Level string // "model", "kin", "gpu" or "engine"
	// Engine, Timing and Scheduler are those of the replays that were compared with measurements: "vllm"; "aic",
	// "interpolated" or "polynomial"; "dynamo" or the engine's name.
	Engine    string
	Timing    string
	Scheduler string
	// System, Model and Precision say what was measured, as far as the level goes and the measurements say.
	System    string
	Model     string
	Precision string

	Measurements int
	Note         string // what a user has to know, "" for nothing
	// Kernels are those of the durations that the fit looked at, where they are not those of the engine itself.
	Kernels Kernels
	// Fused tells that the fit counted passes of vLLM as one forward (engine argument pass_time); its knobs mean that.
	Fused bool

	Knobs map[string]float64 // those that were fitted, by name; see engineargs.Knobs
	// KVTokens is the size of the KV pool of the engine that was measured, in tokens; 0 if that is not known.
	KVTokens int
	// Error is what a fit of one configuration found of its runs, each predicted by a fit to the others; nil if it did
	// not.
	Error *Error
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

// schema returns what a profile may contain.
func schema() strictjson.Schema {
	fitted := make([]strictjson.Field, len(knobs))
	for i, k := range knobs {
		fitted[i] = strictjson.Field{Name: k.name, Type: strictjson.Number{Max: k.most, MinOpen: k.factor}}
	}
	text, count := strictjson.Text{}, strictjson.Integer{}
	return strictjson.Schema{Fields: []strictjson.Field{
		{Name: "format", Type: strictjson.Enum{Choices: []string{Format}}, Required: true, NotNull: true},
		{Name: "fit", Type: strictjson.Any{}}, // how it was made, for people
		{Name: "entries", Type: strictjson.Objects{Fields: []strictjson.Field{
			{Name: "level", Type: strictjson.Enum{Choices: levels}, Required: true, NotNull: true},
			{Name: "engine", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true},
			{Name: "timing", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true},
			{Name: "scheduler", Type: text}, {Name: "system", Type: text}, {Name: "model", Type: text},
			{Name: "precision", Type: text},
			{Name: "measurements", Type: count}, {Name: "note", Type: text},
			{Name: "kernels", Type: strictjson.Nested{Fields: kernelFields()}},
			{Name: "pass_time", Type: strictjson.Enum{Choices: []string{"separate", "fused"}}},
			{Name: "knobs", Type: strictjson.Nested{Fields: fitted}}, {Name: "kv_tokens", Type: count},
			{Name: "held_out_error", Type: strictjson.Nested{Fields: []strictjson.Field{
				{Name: "ttft", Type: strictjson.Number{Max: 1e9}, Required: true, NotNull: true},
				{Name: "tpot", Type: strictjson.Number{Max: 1e9}, Required: true, NotNull: true},
				{Name: "measurements", Type: count},
			}}},
		}}},
		{Name: "factors", Type: strictjson.Objects{Fields: []strictjson.Field{
			{Name: "engine", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true},
			{Name: "timing", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true},
			{Name: "version", Type: text}, {Name: "model", Type: text}, {Name: "tp", Type: count},
			{Name: "measurements", Type: count},
			{Name: "knobs", Type: strictjson.Nested{Fields: fitted}},
		}}},
	}}
}

// Parse reads a profile. Errors do not name the file.
func Parse(text []byte) (p Profile, err error) {
	o, err := strictjson.Decode(string(text), schema())
	if err == nil {
		err = strictjson.Join(o.RangeErrors())
	}
	if err != nil {
		return Profile{}, fmt.Errorf("not a calibration profile: %w", err)
	}
	for _, e := range o.Objects("entries") {
		entry := Entry{
			Level: e.Text("level"), Engine: e.Text("engine"), Timing: e.Text("timing"), Scheduler: e.Text("scheduler"),
			System: e.Text("system"), Model: e.Text("model"), Precision: e.Text("precision"),
			Measurements: e.Int("measurements"), Note: e.Text("note"), Fused: e.Text("pass_time") == "fused",
			KVTokens: e.Int("kv_tokens"), Knobs: map[string]float64{}, Kernels: readKernels(e),
		}
		readKnobs(e, entry.Knobs)
		if off := e.Object("held_out_error"); off != nil {
			entry.Error = &Error{TTFT: off.Float("ttft"), TPOT: off.Float("tpot"),
				Measurements: off.Int("measurements"), Scheduler: entry.Scheduler}
		}
		p.Entries = append(p.Entries, entry)
	}
	for _, f := range o.Objects("factors") {
		factor := Factor{
			Engine: f.Text("engine"), Timing: f.Text("timing"), Version: f.Text("version"), Model: f.Text("model"),
			TP:           f.Int("tp"),
			Measurements: f.Int("measurements"), Knobs: map[string]float64{},
		}
		readKnobs(f, factor.Knobs)
		p.Factors = append(p.Factors, factor)
	}
	return p, nil
}

// readKnobs sets those that an entry has.
func readKnobs(o *strictjson.Object, to map[string]float64) {
	given := o.Object("knobs")
	for _, k := range knobs {
		if given != nil && given.Given(k.name) {
			to[k.name] = given.Float(k.name)
		}
	}
}
