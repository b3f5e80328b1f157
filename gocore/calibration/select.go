package calibration

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"dynosim/gocore/engineargs"
)

// levels from the most to the least specific.
var levels = []string{"model", "kin", "gpu", "engine"}

// key is what engine arguments say about an engine; "" where they say nothing.
type key struct {
	engine, timing, scheduler, system, model, precision string
}

func keyOf(args engineargs.Args) key {
	k := key{engine: args.EngineType.String(), timing: args.TimingModel, scheduler: args.Scheduler.String()}
	if args.AIC.Backend != "" {
		k.system = args.AIC.System
		k.model = path.Base(strings.TrimRight(args.AIC.Model, "/"))
		k.precision = precision(args.AIC.Types.GEMM, k.model)
	}
	return k
}

// families are the parts of names by which a data type or a model tells its precision, the most telling first.
var families = []struct{ part, precision string }{
	{"nvfp4", "fp4"}, {"mxfp4", "fp4"}, {"fp4", "fp4"}, {"fp8", "fp8"}, {"int4", "int4"}, {"w4a16", "int4"},
	{"int8", "int8"}, {"float16", "bf16"}, {"bf16", "bf16"},
}

// precision is that of a data type if one is given, otherwise what the name of the model tells, "" for nothing.
func precision(dataType, model string) string {
	name := strings.ToLower(dataType)
	if name == "" {
		name = strings.ToLower(model)
	}
	for _, f := range families {
		if strings.Contains(name, f.part) {
			return f.precision
		}
	}
	return ""
}

// choose returns the most specific entry that fits, nil if there is none.
func (p Profile) choose(k key) *Entry {
	for _, level := range levels {
		var fit []*Entry
		for i := range p.Entries {
			if e := &p.Entries[i]; e.Level == level && e.fits(k) {
				fit = append(fit, e)
			}
		}
		if len(fit) > 1 { // a name that tells no precision is usually that of the unquantised model
			fit = slices.DeleteFunc(fit, func(e *Entry) bool { return k.precision == "" && e.Precision != "bf16" })
		}
		if len(fit) == 1 {
			return fit[0]
		}
	}
	return nil
}

// fits reports whether nothing that is known about an engine contradicts an entry.
func (e *Entry) fits(k key) bool {
	same := func(want, got string) bool { return want == "" || got == "" || strings.EqualFold(want, got) }
	return e.Engine == k.engine && e.Timing == k.timing &&
		same(e.System, k.system) && same(e.Model, k.model) && same(e.Precision, k.precision)
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
