package profile

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		name      string
		y         []float64
		columns   [][]float64
		slopes    []float64
		intercept float64
	}{
		{"line", []float64{3, 5, 7}, [][]float64{{1, 2, 3}}, []float64{2}, 1},
		{"noise", []float64{1, 2, 2}, [][]float64{{0, 1, 2}}, []float64{0.5}, 7. / 6},
		{"one sample", []float64{3}, [][]float64{{5}}, []float64{0}, 3},
		{"one sample, two columns", []float64{3}, [][]float64{{5}, {7}}, []float64{0, 0}, 3},
		{"constant column", []float64{3, 5}, [][]float64{{4, 4}, {1, 2}}, []float64{0, 2}, 1},
		{"plane", []float64{1, 3, 4, 6}, [][]float64{{0, 1, 0, 1}, {0, 0, 1, 1}}, []float64{2, 3}, 1},
		{"columns on one line", []float64{0, 5, 10}, [][]float64{{0, 1, 2}, {0, 2, 4}}, []float64{1, 2}, 0},
		{"two samples", []float64{0, 25}, [][]float64{{0, 3}, {0, 4}}, []float64{3, 4}, 0},
		{"equal columns", []float64{1, 3, 5}, [][]float64{{1, 2, 3}, {1, 2, 3}}, []float64{1, 1}, -1},
	} {
		slopes, intercept := fit(c.y, c.columns...)
		for k, want := range c.slopes {
			if math.Abs(slopes[k]-want) > 1e-12 {
				t.Errorf("%s: slopes: got %v, want %v", c.name, slopes, c.slopes)
			}
		}
		if len(slopes) != len(c.slopes) || math.Abs(intercept-c.intercept) > 10*1e-12 {
			t.Errorf("%s: got %v, intercept %v, want %v, %v", c.name, slopes, intercept, c.slopes, c.intercept)
		}
	}
}

// TestFitFindsThePlane adds no noise, so the coefficients come out to the last digits, even for columns of very
// different size that nearly lie on one line.
func TestFitFindsThePlane(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 3 + rng.IntN(50)
		d0, d1, d2 := rng.Float64(), rng.Float64(), rng.Float64()/1e5
		a, b, y := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			b[i] = math.Floor(1e6 * rng.Float64())
			a[i] = math.RoundToEven(b[i]/1000) + float64(rng.IntN(50))
			y[i] = d0 + d1*a[i] + d2*b[i]
		}
		slopes, intercept := fit(y, a, b)
		if math.Abs(slopes[0]-d1) > 1e-8 || math.Abs(slopes[1]-d2) > 1e-11 || math.Abs(intercept-d0) > 1e-8 {
			t.Fatalf("got %v, intercept %v, want %v %v, %v", slopes, intercept, d1, d2, d0)
		}
	}
}

// TestFitNearALine: what keeps the samples off the line is rounding, and must not show in the slopes.
func TestFitNearALine(t *testing.T) {
	slopes, intercept := fit([]float64{0.1, 0.2, 0.4}, []float64{0, 2858, 5715}, []float64{0, 1e6, 2e6})
	if slopes[0] < 0 || slopes[0] > 1e-6 || slopes[1] < 0 || slopes[1] > 2e-6 || math.Abs(intercept-0.1) > 0.05 {
		t.Errorf("got %v, intercept %v", slopes, intercept)
	}
	offLine, _ := fit([]float64{0.1, 0.2, 0.4}, []float64{0, 3858, 5715}, []float64{0, 1e6, 2e6})
	if offLine[0] >= 0 {
		t.Errorf("samples off the line: got %v, want a negative first slope", offLine)
	}
}
