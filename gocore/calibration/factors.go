package calibration

import (
	"fmt"
	"math"
	"strings"
)

// Factor multiplies the knobs of an entry for a release of the engine, or for a model on a number of GPUs. Entries are
// of what was measured together; factors say by how much releases differ from each other.
type Factor struct {
	Engine, Timing string
	// Version, Model and TP say what it is for: any of them if "" or 0.
	Version string
	Model   string
	TP      int

	Measurements int
	Knobs        map[string]float64
}

// factorsFor returns those that hold for an engine that uses an entry. Those of a model hold where the entry is of that
// model.
func (p Profile) factorsFor(e *Entry, k Key) (found []*Factor) {
	for i := range p.Factors {
		f := &p.Factors[i]
		switch {
		case f.Engine != k.Engine || f.Timing != k.Timing:
		case f.Version != "" && !strings.EqualFold(f.Version, k.Version):
		case f.Model != "" && (e.Model == "" || !strings.EqualFold(Family(f.Model), Family(k.Model))):
		case f.TP != 0 && f.TP != k.TP:
		default:
			found = append(found, f)
		}
	}
	return found
}

// Release returns a version without what tells builds of a release apart: "0.19.0" of "v0.19.0-cu130", "nightly" of
// "nightly-dev-20260401".
func Release(version string) string {
	release, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	release, _, _ = strings.Cut(release, "+")
	return release
}

// Knobs returns those of the entry at a place for an engine, with all factors that hold for it.
func (p Profile) Knobs(place int, k Key) map[string]float64 {
	e := &p.Entries[place]
	factors := p.factorsFor(e, k)
	found := make(map[string]float64, len(e.Knobs))
	for name, value := range e.Knobs {
		found[name] = times(value, factors, name)
	}
	return found
}

// times multiplies the value of a knob, to the four digits that profiles have.
func times(value float64, factors []*Factor, knob string) float64 {
	by := 1.0
	for _, f := range factors {
		if factor, ok := f.Knobs[knob]; ok {
			by *= factor
		}
	}
	if by == 1 || value == 0 {
		return value
	}
	value *= by
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*unit) / unit
}

// wordsOf returns which factors were applied, "" for none.
func wordsOf(factors []*Factor) string {
	var words []string
	for _, f := range factors {
		var about []string
		if f.Version != "" {
			about = append(about, "version "+f.Version)
		}
		if f.TP != 0 {
			about = append(about, fmt.Sprintf("TP %d", f.TP))
		}
		words = append(words, fmt.Sprintf("%s (%s)",
			strings.Join(nonEmpty(append([]string{f.Model}, about...)...), ", "), counted(f.Measurements)))
	}
	if words == nil {
		return ""
	}
	return "; times those of " + strings.Join(words, " and ")
}
