package timing

import (
	"math"
	"math/bits"
)

const nsPerSecond = 1_000_000_000

// Nanos rounds x seconds to whole nanoseconds: the exact binary value of x times 1e9, ties to even.
//
// Rounding x*1e9 in float64 would round twice and be off by one nanosecond for hundreds of ordinary prompt lengths.
// x must be finite and >= 0; from 2^33 seconds (272 years) on the result is the largest int64.
func Nanos(x float64) int64 {
	b := math.Float64bits(x)
	exponent := int(b>>52) - 1023
	mantissa := b&(1<<52-1) | 1<<52
	switch {
	case exponent < -31: // below half a nanosecond, subnormals included
		return 0
	case exponent >= 33:
		return math.MaxInt64
	}
	// x = mantissa / 2^shift; split into whole seconds and a fraction of a second.
	shift := uint(52 - exponent)
	seconds, fraction := uint64(0), mantissa
	if exponent >= 0 {
		seconds = mantissa >> shift
		fraction = mantissa & (1<<shift - 1)
	}
	return int64(seconds*nsPerSecond + roundedShift(fraction, nsPerSecond, shift))
}

// Seconds turns nanoseconds back into float64 seconds: whole seconds plus the rest divided by 1e9. It is not n/1e9.
func Seconds(ns int64) float64 {
	return float64(ns/nsPerSecond) + float64(ns%nsPerSecond)/1e9
}

// roundedShift returns a*b / 2^shift rounded to nearest, ties to even. a*b must stay below 2^83 and shift in 19..83, so
// that the result fits 64 bits.
func roundedShift(a, b uint64, shift uint) uint64 {
	hi, lo := bits.Mul64(a, b)
	var quotient, rest, half uint64 // rest and half keep the high bits; lower ones only matter as "not zero"
	var sticky bool
	if shift < 64 {
		quotient = hi<<(64-shift) | lo>>shift
		rest, half = lo&(1<<shift-1), 1<<(shift-1)
	} else {
		quotient = hi >> (shift - 64)
		// One bit more than the high word's remainder, so that "half" is an integer also for shift 64.
		rest = hi<<(128-shift)>>(128-shift)<<1 | lo>>63
		half = 1 << (shift - 64)
		sticky = lo<<1 != 0
	}
	if rest > half || rest == half && (sticky || quotient&1 == 1) {
		quotient++
	}
	return quotient
}
