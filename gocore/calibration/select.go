package calibration

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"dynosim/gocore/engineargs"
)

// levels from the most to the least specific; doc.go says what each covers.
var levels = []string{"model", "kin", "gpu", "engine"}

// Key is what the arguments of an engine say about it; "" where they say nothing. Entries are chosen by it, and fits
// group measurements by it.
type Key struct {
	Engine    string `json:"engine"`
	Timing    string `json:"timing"`
	Scheduler string `json:"scheduler"`
	System    string `json:"system"`
	Model     string `json:"model"` // the checkpoint, without its owner
	Precision string `json:"precision"`
	Version   string `json:"version,omitempty"` // of the engine
	TP        int    `json:"tp,omitempty"`
}

// KeyOf returns the key of an engine.
func KeyOf(args engineargs.Args) Key {
	k := Key{Engine: args.EngineType.String(), Timing: args.TimingModel, Scheduler: args.Scheduler.String(),
		Version: Release(args.EngineVersion)}
	if args.AIC.Backend != "" {
		k.System = args.AIC.System
		k.Model = path.Base(strings.TrimRight(args.AIC.Model, "/"))
		k.Precision = precision(args.AIC.Types.GEMM, k.Model)
		k.TP = args.AIC.TP
	}
	return k
}

// sameLayers names, for models that differ only in what they were trained on, the one that was measured. Kernels do
// not see a difference. Source: their config.json.
var sameLayers = map[string]string{
	"deepseek-r1": "DeepSeek-V3", "deepseek-v3.1": "DeepSeek-V3", "deepseek-v3.1-terminus": "DeepSeek-V3",
	"llama-3.3-70b": "Llama-3.1-70B",
	"minimax-m2":    "MiniMax-M2.5", "minimax-m2.1": "MiniMax-M2.5",
}

// Family returns the name of the model that a checkpoint is of: without what tells its data type, tuning and date, and
// one name for models with the same layers.
func Family(checkpoint string) string {
	name := stem(checkpoint)
	if same, ok := sameLayers[strings.ToLower(name)]; ok {
		return same
	}
	return name
}

// stem returns the name of a checkpoint without what tells its data type, tuning and date.
func stem(checkpoint string) string {
	parts := strings.Split(checkpoint, "-")
	if len(parts) > 1 && strings.EqualFold(parts[0], "meta") {
		parts = parts[1:]
	}
	if last := len(parts) - 1; last > 1 && strings.EqualFold(parts[last], "v2") && precision("", parts[last-1]) != "" {
		parts = parts[:last] // DeepSeek-R1-0528-FP4-v2, but not DeepSeek-V2
	}
	for len(parts) > 1 && isVariant(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, "-")
}

var variants = []string{"instruct", "chat", "it", "hf", "base", "thinking", "awq", "gptq", "dynamic", "block"}

// isVariant reports whether a part of a name tells checkpoints of one model apart.
func isVariant(part string) bool {
	part = strings.ToLower(part)
	_, err := strconv.Atoi(part)
	date := err == nil && len(part) == 4
	return date || slices.Contains(variants, part) || precision(part, "") != ""
}

// precisions are the parts of names by which a data type or a model tells its precision, the most telling first.
var precisions = []struct{ part, precision string }{
	{"nvfp4", "fp4"}, {"mxfp4", "fp4"}, {"fp4", "fp4"}, {"fp8", "fp8"}, {"int4", "int4"}, {"w4a16", "int4"},
	{"int8", "int8"}, {"float16", "bf16"}, {"bf16", "bf16"},
}

// precision returns that of a data type if one is given, otherwise what the name of the model tells, "" for nothing.
func precision(dataType, model string) string {
	name := strings.ToLower(dataType)
	if name == "" {
		name = strings.ToLower(model)
	}
	for _, f := range precisions {
		if strings.Contains(name, f.part) {
			return f.precision
		}
	}
	return ""
}

// Choose returns the place of the most specific entry that fits, -1 if there is none.
func (p Profile) Choose(k Key) int {
	if k.Precision == "" {
		k.Precision = p.measuredAs(k.Model)
	}
	for _, level := range levels {
		var fit []int
		for i := range p.Entries {
			if e := &p.Entries[i]; e.Level == level && e.fits(k) {
				fit = append(fit, i)
			}
		}
		if len(fit) > 1 { // a name that tells no precision is usually that of the unquantised model
			fit = slices.DeleteFunc(fit, func(i int) bool {
				return k.Precision == "" &&
					p.Entries[i].Precision != "bf16"
			})
		}
		if len(fit) > 1 { // of models with the same layers, the one itself
			fit = slices.DeleteFunc(fit, func(i int) bool { return !strings.EqualFold(stem(p.Entries[i].Model), stem(k.Model)) })
		}
		if len(fit) == 1 {
			return fit[0]
		}
	}
	return -1
}

// measuredAs returns the precision in which a checkpoint, or the model that Family names it after, was measured on
// whatever GPU; "" if there are none or several.
func (p Profile) measuredAs(checkpoint string) string {
	found := ""
	for i := range p.Entries {
		e := &p.Entries[i]
		measured := strings.EqualFold(e.Model, checkpoint) || strings.EqualFold(e.Model, Family(checkpoint))
		if e.Level != "model" || checkpoint == "" || !measured || e.Precision == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = e.Precision
	}
	return found
}

// fits reports whether an entry is of the same engine, and equal in every field that both of them know.
func (e *Entry) fits(k Key) bool {
	sameOrUnknown := func(want, got string) bool { return want == "" || got == "" || strings.EqualFold(want, got) }
	return e.Engine == k.Engine && e.Timing == k.Timing &&
		sameOrUnknown(e.System, k.System) && sameOrUnknown(Family(e.Model), Family(k.Model)) &&
		sameOrUnknown(e.Precision, k.Precision)
}

// name says what an entry is about.
func (e *Entry) name() string {
	about := strings.Join(nonEmpty(e.Engine, e.Model, e.System, e.Precision), ", ")
	return fmt.Sprintf("level %s (%s; %s)", e.Level, about, counted(e.Measurements))
}

func counted(measurements int) string {
	if measurements == 1 {
		return "1 measurement"
	}
	return fmt.Sprintf("%d measurements", measurements)
}

// has lists what a profile has entries for, for messages.
func (p Profile) has() string {
	var all []string
	for _, e := range p.Entries {
		if text := fmt.Sprintf("%s with %s durations", e.Engine, e.Timing); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if all == nil {
		return "nothing"
	}
	return strings.Join(all, ", ")
}
