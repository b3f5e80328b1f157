package profile

import "math"

// negligible is the singular value, as a part of the largest, up to which a direction counts as missing.
const negligible = 1e-6

// fit finds the slopes and the intercept that leave the smallest sum of squares between y and intercept + sum of
// slope*column. There are one or two columns, all as long as y, which has at least one value.
//
// When the samples do not determine the slopes, as when all of them lie on one line, the slopes whose squares sum up to
// the least are taken; a column that never changes then gets slope 0.
//
// Samples that lie very near to one line do not determine them either: their distance from it is then mostly rounding,
// such as that of batch sizes at one context length, which would decide the slopes. A direction counts as missing in
// which the samples extend less than a millionth of the way that they do in the other; so does scikit-learn from
// release 1.9.
//
// The columns, less their means, are turned until they are orthogonal (one-sided Jacobi, Golub and Van Loan, Matrix
// Computations, 8.6.3): their lengths are then the singular values. Normal equations would lose half of the digits.
func fit(y []float64, columns ...[]float64) (slopes []float64, intercept float64) {
	yMean := mean(y)
	means := make([]float64, 2)
	centred := [2][]float64{make([]float64, len(y)), make([]float64, len(y))}
	for k, column := range columns {
		means[k] = mean(column)
		for i, x := range column {
			centred[k][i] = x - means[k]
		}
	}
	cos, sin := orthogonalise(centred[0], centred[1])
	squares := [2]float64{dot(centred[0], centred[0]), dot(centred[1], centred[1])}
	cutoff := max(squares[0], squares[1]) * float64(negligible*negligible)
	var turned [2]float64
	for k := range turned {
		if squares[k] > cutoff {
			for i := range y {
				turned[k] += float64(centred[k][i] * (y[i] - yMean))
			}
			turned[k] /= squares[k]
		}
	}
	slopes = []float64{
		float64(cos*turned[0]) + float64(sin*turned[1]),
		float64(cos*turned[1]) - float64(sin*turned[0]),
	}[:len(columns)]
	intercept = yMean
	for k, slope := range slopes {
		intercept -= float64(means[k] * slope)
	}
	return slopes, intercept
}

// orthogonalise turns the columns a and b against each other until they are orthogonal, and returns the cosine and sine
// of the angle: a becomes cos*a - sin*b, b becomes sin*a + cos*b.
func orthogonalise(a, b []float64) (cos, sin float64) {
	cos, sin = 1, 0
	for range 4 { // one turn is enough but for rounding
		product, aa, bb := dot(a, b), dot(a, a), dot(b, b)
		if math.Abs(product) <= 0x1p-53*math.Sqrt(float64(aa*bb)) {
			break
		}
		zeta := (bb - aa) / float64(2*product)
		t := math.Copysign(1, zeta) / (math.Abs(zeta) + math.Sqrt(1+float64(zeta*zeta)))
		c := 1 / math.Sqrt(1+float64(t*t))
		s := float64(c * t)
		for i := range a {
			x, y := a[i], b[i]
			a[i] = float64(c*x) - float64(s*y)
			b[i] = float64(s*x) + float64(c*y)
		}
		cos, sin = float64(cos*c)-float64(sin*s), float64(sin*c)+float64(cos*s)
	}
	return cos, sin
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	return sum / float64(len(values))
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}
