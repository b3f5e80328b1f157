package report

import "math"

// statNames are the statistics of a distribution, in the order of the report.
var statNames = [...]string{"mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std"}

// percents are the percentiles among statNames.
var percents = [...]float64{50, 75, 90, 95, 99}

// rankOf returns the number of a percentile among total sorted values, counted from 0: the nearest rank without
// interpolation, round((total-1)*percent/100), half away from zero. So the median of two values is the larger.
func rankOf(percent float64, total int64) int64 {
	return min(total-1, int64(math.Round(float64(total-1)*percent/100)))
}

// statistics computes those of statNames over sorted values; all are 0 for no values. std is the population's.
func statistics(sorted []float64) (found [len(statNames)]float64) {
	if len(sorted) == 0 {
		return found
	}
	count, sum := float64(len(sorted)), 0.0
	for _, v := range sorted {
		sum += v
	}
	mean := sum / count
	squares := 0.0
	for _, v := range sorted {
		d := v - mean
		squares += float64(d * d)
	}
	found[0], found[1], found[2] = mean, sorted[0], sorted[len(sorted)-1]
	for i, percent := range percents {
		found[3+i] = sorted[rankOf(percent, int64(len(sorted)))]
	}
	found[len(found)-1] = math.Sqrt(squares / count)
	return found
}

// repeatedStatistics does what statistics does, for values that are repeated. Its sums add the values of each weight,
// times weight, one after the other.
func repeatedStatistics(sorted []repeated) (found [len(statNames)]float64) {
	if len(sorted) == 0 {
		return found
	}
	total, sum := occurrences(sorted), 0.0
	for _, r := range sorted {
		sum = addTimes(sum, float64(float64(r.weight)*r.value), r.count)
	}
	mean := sum / float64(total)
	squares := 0.0
	for _, r := range sorted {
		d := r.value - mean
		squares = addTimes(squares, float64(float64(r.weight)*float64(d*d)), r.count)
	}
	found[0], found[1], found[2] = mean, sorted[0].value, sorted[len(sorted)-1].value
	below, at := int64(0), 0 // values before sorted[at]
	for i, percent := range percents {
		for rank := rankOf(percent, total); below+sorted[at].weight*sorted[at].count <= rank; at++ {
			below += sorted[at].weight * sorted[at].count
		}
		found[3+i] = sorted[at].value
	}
	found[len(found)-1] = math.Sqrt(squares / float64(total))
	return found
}

func occurrences(values []repeated) int64 {
	total := int64(0)
	for _, r := range values {
		total += r.weight * r.count
	}
	return total
}

// fewTimes is how many additions take less time one by one.
const fewTimes = 8

// addTimes adds term to sum a number of times, rounding after each addition. Neither is negative.
//
// Between two powers of two the floats are equally far apart. While sum stays there, every addition rounds to the
// same step, unless term lies half way between two steps: then evenness decides.
func addTimes(sum, term float64, times int64) float64 {
	for times >= fewTimes {
		next, top := sum+term, powerAbove(sum)
		step := next - sum
		halfWay := math.Abs(term-step) == top*0x1p-54
		if next >= top || halfWay || sum < 0x1p-900 || sum > 0x1p900 {
			sum, times = next, times-1
			continue
		}
		if step == 0 {
			return sum
		}
		steps := max(min(times, int64((top-sum)/step)-1), 1)
		sum, times = sum+float64(float64(steps)*step), times-steps
	}
	for range times {
		sum += term
	}
	return sum
}

// powerAbove returns the least power of two above a positive number.
func powerAbove(x float64) float64 {
	const exponent = 0x7ff << 52
	return math.Float64frombits(math.Float64bits(x)&exponent + 1<<52)
}
