package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
)

func mustParse(t testing.TB, text string) *Lengths {
	t.Helper()
	d, err := ParseLengths(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func drawn(t testing.TB, d *Lengths, count int, seed uint64) []int {
	t.Helper()
	lengths, err := d.draw(count, rand.NewPCG(seed, 1))
	if err != nil {
		t.Fatal(err)
	}
	return lengths
}

func moments(values []float64) (mean, cv float64) {
	mean, sd := stat.MeanStdDev(values, nil)
	return mean, sd / mean
}

func floats(lengths []int) []float64 {
	all := make([]float64, len(lengths))
	for i, n := range lengths {
		all[i] = float64(n)
	}
	return all
}

func TestMomentsOfLengths(t *testing.T) {
	for _, c := range []struct {
		text     string
		mean, cv float64
		min, max int
	}{
		{"2000", 2000, 0, 2000, 2000},
		{" 7 ", 7, 0, 7, 7},
		{"uniform(100,300)", 200, math.Sqrt((201.0*201-1)/12) / 200, 100, 300},
		{"uniform( 5 , 5 )", 5, 0, 5, 5},
		{"normal(mean=2000,std=300)", 2000, 0.15, 1, MaxLength},
		{"normal(std=0, mean=17.4)", 17, 0, 17, 17},
		{"lognormal(mean=2000,cv=0.8)", 2000, 0.8, 1, MaxLength},
		{"lognormal(mean=500,cv=0.1,min=10,max=32000)", 500, 0.1, 10, 32000},
		{"lognormal(mean=500,cv=0)", 500, 0, 500, 500},
	} {
		lengths := drawn(t, mustParse(t, c.text), 200_000, 3)
		mean, cv := moments(floats(lengths))
		if math.Abs(mean/c.mean-1) > 0.01 || math.Abs(cv-c.cv) > 0.01 {
			t.Errorf("%s: got mean %v and cv %v, want %v and %v", c.text, mean, cv, c.mean, c.cv)
		}
		if slices.Min(lengths) < c.min || slices.Max(lengths) > c.max {
			t.Errorf("%s: got lengths from %d to %d", c.text, slices.Min(lengths), slices.Max(lengths))
		}
	}
}

func TestBoundsAreReached(t *testing.T) {
	for _, text := range []string{"normal(mean=100,std=80,min=50,max=150)", "lognormal(mean=100,cv=2,min=50,max=150)",
		"uniform(50,150)"} {
		lengths := drawn(t, mustParse(t, text), 10_000, 1)
		if slices.Min(lengths) != 50 || slices.Max(lengths) != 150 {
			t.Errorf("%s: got lengths from %d to %d", text, slices.Min(lengths), slices.Max(lengths))
		}
	}
	huge := drawn(t, mustParse(t, "lognormal(mean=1e308,cv=1e100)"), 100, 1)
	if slices.Min(huge) < 1 || slices.Max(huge) > MaxLength {
		t.Errorf("got lengths from %d to %d", slices.Min(huge), slices.Max(huge))
	}
}

func TestEmpiricalLengths(t *testing.T) {
	d := mustParse(t, "empirical( lengths of today.txt )")
	if path, needed := d.File(); path != "lengths of today.txt" || !needed {
		t.Errorf("got %q, %v", path, needed)
	}
	if _, err := d.draw(1, rand.NewPCG(0, 0)); err == nil ||
		err.Error() != "empirical( lengths of today.txt ): the file has not been read" {
		t.Errorf("got %v", err)
	}
	if err := d.ReadFile(Source{Name: "f", Reader: strings.NewReader("# tokens\n7\r\n\n 30\n7")}); err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for _, n := range drawn(t, d, 30_000, 5) {
		counts[n]++
	}
	if len(counts) != 2 || counts[7] < 19_500 || counts[7] > 20_500 {
		t.Errorf("got %v", counts)
	}
	if _, needed := mustParse(t, "uniform(1,2)").File(); needed {
		t.Error("uniform needs no file")
	}
	for text, want := range map[string]string{
		"":                "f: holds no lengths",
		"# nothing":       "f: holds no lengths",
		"1\n\n2.5":        "f line 3: got 2.5, want an integer from 1 to 2147483647",
		"0":               "f line 1: got 0, want an integer from 1 to 2147483647",
		"1 2":             "f line 1: got 1 2, want an integer from 1 to 2147483647",
		"2147483648":      "f line 1: got 2147483648, want an integer from 1 to 2147483647",
		"\x1f\x8b broken": "f cannot be read: the compressed data is truncated",
	} {
		if err := d.ReadFile(Source{Name: "f", Reader: strings.NewReader(text)}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestParseLengthsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":               `got "", want an integer >= 1, uniform(A,B)`,
		"x":              `got "x", want an integer >= 1, uniform(A,B)`,
		"1.5":            `got "1.5", want an integer >= 1`,
		"0":              "got 0, want an integer from 1 to 2147483647",
		"-3":             "got -3, want an integer from 1 to 2147483647",
		"2147483648":     "got 2147483648, want an integer from 1 to 2147483647",
		"uniform(1,2":    `got "uniform(1,2", want`,
		"uniform":        `got "uniform", want`,
		"gauss(1,2)":     `gauss(1,2): got the distribution "gauss", want`,
		"uniform(1)":     "uniform(1): got 1 numbers, want the shortest and the longest length",
		"uniform(1,2,3)": "got 3 numbers, want",
		"uniform(a,3)":   `the shortest length: got "a", want an integer`,
		"uniform(1,0)":   `the longest length: got "0", want an integer`,
		"uniform(9,3)": "got 9 as the shortest and 3 as the longest length, want them the " +
			"other way round",
		"normal(2000,500)":                       `got "2000", want KEY=VALUE with a key of mean, std, min, max`,
		"normal()":                               `got "", want KEY=VALUE`,
		"normal(mean=2000)":                      "std: missing, want a number >= 0",
		"normal(std=1)":                          "mean: missing, want a number > 0",
		"normal(mean=0,std=1)":                   "mean: got 0, want a number > 0",
		"normal(mean=-1,std=1)":                  "mean: got -1, want a number > 0",
		"normal(mean=nan,std=1)":                 "mean: got nan, want a number > 0",
		"normal(mean=1,std=inf)":                 "std: got inf, want a number >= 0",
		"normal(mean=1,std=x)":                   "std: got x, want a number >= 0",
		"normal(mean=1,std=1,cv=1)":              `unknown key "cv", want one of mean, std, min, max`,
		"normal(mean=1,std=1,mean=1)":            "mean: given twice",
		"normal(mean=,std=1)":                    "mean: got nothing, want a number",
		"lognormal(mean=1,std=1)":                `unknown key "std", want one of mean, cv, min, max`,
		"lognormal(mean=1)":                      "cv: missing, want a number >= 0",
		"lognormal(mean=1,cv=1e200)":             "cv: got 1e+200, want a number whose square is finite",
		"lognormal(mean=1,cv=1,min=0)":           `min: got "0", want an integer`,
		"lognormal(mean=1,cv=1,max=1.5)":         `max: got "1.5", want an integer`,
		"lognormal(mean=1,cv=1,min=9,max=8)":     "got 9 as the shortest and 8 as the longest",
		"empirical()":                            "got no file, want empirical(FILE)",
		"lognormal(mean=1,cv=1,max=99999999999)": `max: got "99999999999", want an integer from 1 to 2147483647`,
	} {
		if _, err := ParseLengths(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestLengthsAreDeterministic pins the first draws: the same seed gives the same workload for good.
func TestLengthsAreDeterministic(t *testing.T) {
	for text, want := range map[string][]int{
		"uniform(1,1000)":             {182, 574, 574, 662, 981, 77},
		"normal(mean=1000,std=100)":   {915, 980, 1043, 828, 1152, 1160},
		"lognormal(mean=1000,cv=0.8)": {429, 678, 1054, 233, 2276, 2402},
	} {
		d := mustParse(t, text)
		if got := drawn(t, d, 6, 42); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func FuzzParseLengths(f *testing.F) {
	for _, text := range []string{"12", "uniform(1,5)", "normal(mean=2,std=1e3,min=1)",
		"lognormal(mean=5,cv=0.8,max=9)", "empirical(f)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseLengths(text)
		if err != nil {
			return
		}
		if _, needed := d.File(); needed {
			return
		}
		for _, n := range drawn(t, d, 20, 1) {
			if n < max(1, d.min) || n > min(d.max, MaxLength) {
				t.Fatalf("%q: drew %d", text, n)
			}
		}
	})
}
