package traffic

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPDF(t *testing.T) {
	p, ok := parsePDF(" {4: 0.25, 9: 0.5,12.0 : 0.25, 7: 0}", 100)
	if !ok {
		t.Fatal("not read")
	}
	const draws = 40_000
	counts := map[int64]float64{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range draws {
		counts[p.draw(rng)]++
	}
	for value, share := range map[int64]float64{4: 0.25, 9: 0.5, 12: 0.25, 7: 0} {
		// Four standard deviations of a binomial distribution.
		if got, allowed := counts[value]/draws, 4*math.Sqrt(share*(1-share)/draws); math.Abs(got-share) > allowed {
			t.Errorf("%d: drawn in %v of all cases, want %v", value, got, share)
		}
	}
	for _, text := range []string{"", "{", "{4}", "{4: x}", "{4: -1}", "{4: nan}", "{101: 1}", "{4: 0}", "{4: 1,}",
		"[4]"} {
		if _, ok := parsePDF(text, 100); ok {
			t.Errorf("%q is read", text)
		}
	}
	if p, ok := parsePDF("{ }", 100); !ok || p.draw(rng) != 0 {
		t.Error("an empty distribution is not read, or draws something")
	}
}

// TestFill keeps the number of requests and the shape of their gaps: those of a window differ by a factor.
func TestFill(t *testing.T) {
	gaps := []float64{1, 3, 2, 4}
	at := -1
	starts := fill(3, window{startS: 100, lengthS: 50}, func() float64 { at++; return gaps[at] })
	for i, want := range []float64{105, 120, 130} {
		if math.Abs(starts[i]-want) > 1e-9 {
			t.Errorf("request %d is at %v, want %v", i, starts[i], want)
		}
	}
	even := fill(3, window{lengthS: 40}, func() float64 { return 0 })
	for i, want := range []float64{10, 20, 30} {
		if even[i] != want {
			t.Errorf("without gaps request %d is at %v, want %v", i, even[i], want)
		}
	}
}

// drawn is what is drawn of a request.
type drawn struct {
	startNs       int64
	input, output int32
}

// TestClientsAreDrawnOneByOne adds a client: the requests of the other one stay.
func TestClientsAreDrawnOneByOne(t *testing.T) {
	trace := "0,0.5,2,Gamma,0.25,8\n60,0.25,1,,0,0\n120,0,0,,0,0\n"
	dataset := `{"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{1: 0.5, 2: 0.5}"}}`
	read := func(names ...string) map[drawn]bool {
		var sources []Source
		for _, name := range names {
			sources = append(sources, Source{name + "-trace.csv", strings.NewReader(trace)},
				Source{name + "-dataset.json", strings.NewReader(dataset)})
		}
		c := newCollector("", Options{Seed: 3,
			Gaps: func(_ string, _ float64, src rand.Source) func() float64 { return rand.New(src).ExpFloat64 }})
		if err := readServeGen(c, sources); err != nil {
			t.Fatal(err)
		}
		found := map[drawn]bool{}
		for _, r := range c.Requests {
			found[drawn{r.StartNs + c.origin, r.Input, r.Output}] = true
		}
		return found
	}
	alone, both := read("a"), read("b", "a")
	if len(alone) != 45 || len(both) != 90 {
		t.Fatalf("got %d and %d requests, want 30 + 15 for each client", len(alone), len(both))
	}
	for r := range alone {
		if !both[r] {
			t.Errorf("%+v is missing with another client", r)
		}
	}
}
