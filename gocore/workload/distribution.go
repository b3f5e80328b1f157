package workload

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// Lengths is a distribution of lengths in tokens. Text is how a user writes it:
//
//	2000                                     always the same
//	uniform(100,4000)                        each length from 100 to 4000 equally often
//	normal(mean=2000,std=500)                rounded
//	lognormal(mean=2000,cv=0.8,max=32000)    rounded; mean and coefficient of variation of the lengths themselves
//	empirical(FILE)                          drawn, with replacement, from a file with one length per line
//
// normal and lognormal take min and max, 1 and MaxLength if not given. Lengths beyond a bound are set to it, which
// moves the mean.
type Lengths struct {
	Text string

	family   lengthFamily
	file     string
	min, max int
	mean, sd float64 // of the normal distribution of the length, or of its logarithm
	values   []int   // empirical, once read
}

type lengthFamily uint8

const (
	fixedLength lengthFamily = iota
	uniformLength
	normalLength
	lognormalLength
	empiricalLength
)

// MaxLength is the longest prompt or output of a generated workload.
const MaxLength = math.MaxInt32

const (
	// LengthForms says what ParseLengths reads.
	LengthForms = "an integer >= 1, uniform(A,B), normal(mean=M,std=S), lognormal(mean=M,cv=C) or " +
		"empirical(FILE), the middle two with min= and max= if you like"
	wantLength      = "an integer from 1 to 2147483647"
	wantPositive    = "a number > 0"
	wantNonNegative = "a number >= 0"
)

// ParseLengths reads a distribution as a user writes it. An empirical distribution must be given the content of its
// file before it is used, see File.
func ParseLengths(text string) (*Lengths, error) {
	d := &Lengths{Text: text}
	trimmed := strings.TrimSpace(text)
	if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
		if n < 1 || n > MaxLength {
			return nil, fmt.Errorf("got %s, want %s", trimmed, wantLength)
		}
		d.min, d.max = int(n), int(n)
		return d, nil
	}
	name, rest, found := strings.Cut(trimmed, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !found || !closed {
		return nil, fmt.Errorf("got %q, want %s", text, LengthForms)
	}
	var err error
	switch strings.TrimSpace(name) {
	case "uniform":
		err = d.parseUniform(inner)
	case "normal":
		err = d.parseNormal(inner)
	case "lognormal":
		err = d.parseLognormal(inner)
	case "empirical":
		d.family, d.file = empiricalLength, strings.TrimSpace(inner)
		if d.file == "" {
			err = errors.New("got no file, want empirical(FILE)")
		}
	default:
		err = fmt.Errorf("got the distribution %q, want %s", strings.TrimSpace(name), LengthForms)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return d, nil
}

func (d *Lengths) parseUniform(inner string) (err error) {
	d.family = uniformLength
	ends := strings.Split(inner, ",")
	if len(ends) != 2 {
		return fmt.Errorf("got %d numbers, want the shortest and the longest length, as in uniform(100,4000)",
			len(ends))
	}
	if d.min, err = parseLength("the shortest length", ends[0]); err != nil {
		return err
	}
	if d.max, err = parseLength("the longest length", ends[1]); err != nil {
		return err
	}
	return d.checkBounds()
}

func (d *Lengths) parseNormal(inner string) error {
	d.family = normalLength
	p, err := parseParameters(inner, "mean", "std", "min", "max")
	if err != nil {
		return err
	}
	if d.mean, err = p.number("mean", wantPositive); err != nil {
		return err
	}
	if d.sd, err = p.number("std", wantNonNegative); err != nil {
		return err
	}
	return d.takeBounds(p)
}

// parseLognormal finds the normal distribution of the logarithm:
//
//	sd^2 = ln(1 + cv^2)
//	mean = ln(m) - sd^2/2
func (d *Lengths) parseLognormal(inner string) error {
	d.family = lognormalLength
	p, err := parseParameters(inner, "mean", "cv", "min", "max")
	if err != nil {
		return err
	}
	mean, err := p.number("mean", wantPositive)
	if err != nil {
		return err
	}
	cv, err := p.number("cv", wantNonNegative)
	if err != nil {
		return err
	}
	variance := math.Log1p(cv * cv)
	if math.IsInf(variance, 0) {
		return fmt.Errorf("cv: got %v, want a number whose square is finite", cv)
	}
	d.mean, d.sd = math.Log(mean)-variance/2, math.Sqrt(variance)
	return d.takeBounds(p)
}

func (d *Lengths) takeBounds(p parameters) (err error) {
	d.min, d.max = 1, MaxLength
	if text, given := p["min"]; given {
		if d.min, err = parseLength("min", text); err != nil {
			return err
		}
	}
	if text, given := p["max"]; given {
		if d.max, err = parseLength("max", text); err != nil {
			return err
		}
	}
	return d.checkBounds()
}

func (d *Lengths) checkBounds() error {
	if d.min > d.max {
		return fmt.Errorf("got %d as the shortest and %d as the longest length, want them the other way round", d.min,
			d.max)
	}
	return nil
}

// parameters are the values of KEY=VALUE, KEY=VALUE.
type parameters map[string]string

func parseParameters(inner string, known ...string) (parameters, error) {
	p := make(parameters)
	for part := range strings.SplitSeq(inner, ",") {
		key, value, found := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		switch {
		case !found:
			return nil, fmt.Errorf("got %q, want KEY=VALUE with a key of %s", strings.TrimSpace(part),
				strings.Join(known, ", "))
		case !slices.Contains(known, key):
			return nil, fmt.Errorf("unknown key %q, want one of %s", key, strings.Join(known, ", "))
		case p[key] != "":
			return nil, fmt.Errorf("%s: given twice", key)
		case strings.TrimSpace(value) == "":
			return nil, fmt.Errorf("%s: got nothing, want a number", key)
		}
		p[key] = strings.TrimSpace(value)
	}
	return p, nil
}

// number reads a parameter that must be given; want is one of the constants above.
func (p parameters) number(key, want string) (float64, error) {
	text, given := p[key]
	if !given {
		return 0, fmt.Errorf("%s: missing, want %s", key, want)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !isDuration(x) || x == 0 && want == wantPositive {
		return 0, fmt.Errorf("%s: got %s, want %s", key, text, want)
	}
	return x, nil
}

func parseLength(name, text string) (int, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > MaxLength {
		return 0, fmt.Errorf("%s: got %q, want %s", name, text, wantLength)
	}
	return int(n), nil
}

// Min returns the shortest length that may be drawn, 0 if a file has to be read for that.
func (d *Lengths) Min() int { return d.min }

// File returns the path of the file that an empirical distribution is in. Its content must be given to ReadFile.
func (d *Lengths) File() (path string, needed bool) {
	return d.file, d.family == empiricalLength
}

// ReadFile reads the lengths of an empirical distribution: one integer per line, blank lines and those that begin with
// # aside. Errors name file and line.
func (d *Lengths) ReadFile(source Source) error {
	d.values = nil
	err := readLines(source, nil, func(_ int, text []byte) error {
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte("#")) {
			return nil
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil || n < 1 || n > MaxLength {
			return mistyped(text, wantLength)
		}
		d.values = append(d.values, int(n))
		return nil
	})
	if err == nil && len(d.values) == 0 {
		return fmt.Errorf("%s: holds no lengths", source.Name)
	}
	return err
}

// draw draws count lengths.
func (d *Lengths) draw(count int, src rand.Source) ([]int, error) {
	if d.family == empiricalLength && len(d.values) == 0 {
		return nil, fmt.Errorf("%s: the file has not been read", d.Text)
	}
	one := d.sampler(src)
	lengths := make([]int, count)
	for i := range lengths {
		lengths[i] = one()
	}
	return lengths, nil
}

func (d *Lengths) sampler(src rand.Source) func() int {
	rng := rand.New(src)
	switch d.family {
	case uniformLength:
		return func() int { return d.min + rng.IntN(d.max-d.min+1) }
	case empiricalLength:
		return func() int { return d.values[rng.IntN(len(d.values))] }
	case normalLength:
		normal := distuv.Normal{Mu: d.mean, Sigma: d.sd, Src: src}
		return func() int { return d.rounded(normal.Rand()) }
	case lognormalLength:
		lognormal := distuv.LogNormal{Mu: d.mean, Sigma: d.sd, Src: src}
		return func() int { return d.rounded(lognormal.Rand()) }
	}
	return func() int { return d.min }
}

func (d *Lengths) rounded(x float64) int {
	return int(math.Round(min(max(x, float64(d.min)), float64(d.max))))
}
