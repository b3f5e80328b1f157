package conform

import (
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// number makes a number: a multiple of a step between two bounds.
func (m *instances) number(all []*jsonschema.Schema, integer bool) *piece {
	low, high, without := boundsOf(all)
	low, high = m.bounds(low, high)
	step := stepOf(all, integer)
	if step == nil {
		step = fineStep(low, high)
	}
	first, last := roundUp(new(big.Rat).Quo(low, step)), roundDown(new(big.Rat).Quo(high, step))
	is := func(n *big.Int, bound *big.Rat) bool {
		return new(big.Rat).Mul(new(big.Rat).SetInt(n), step).Cmp(bound) == 0
	}
	for _, bound := range without {
		if is(first, bound) {
			first.Add(first, big.NewInt(1))
		}
		if is(last, bound) {
			last.Sub(last, big.NewInt(1))
		}
	}
	if first.Cmp(last) > 0 {
		return m.fail("no number is a multiple of %s from %s to %s", step.RatString(), low.RatString(),
			high.RatString())
	}
	n := m.drawn(first, last)
	value := new(big.Rat).Mul(new(big.Rat).SetInt(n), step)
	if value.IsInt() {
		return m.leaf(value.Num().String())
	}
	digits, exact := value.FloatPrec()
	if !exact {
		digits = 15
	}
	return m.leaf(value.FloatString(digits))
}

// boundsOf returns the tightest bounds of schemas, nil for none, and the bounds that are not allowed themselves.
func boundsOf(all []*jsonschema.Schema) (low, high *big.Rat, without []*big.Rat) {
	for _, s := range all {
		for _, bound := range []*big.Rat{s.Minimum, s.ExclusiveMinimum} {
			if bound != nil && (low == nil || bound.Cmp(low) > 0) {
				low = bound
			}
		}
		for _, bound := range []*big.Rat{s.Maximum, s.ExclusiveMaximum} {
			if bound != nil && (high == nil || bound.Cmp(high) < 0) {
				high = bound
			}
		}
		for _, bound := range []*big.Rat{s.ExclusiveMinimum, s.ExclusiveMaximum} {
			if bound != nil {
				without = append(without, bound)
			}
		}
	}
	return low, high, without
}

// stepOf returns the smallest number that is a multiple of what all schemas ask for, nil if any number will do.
func stepOf(all []*jsonschema.Schema, integer bool) (step *big.Rat) {
	if integer {
		step = big.NewRat(1, 1)
	}
	for _, s := range all {
		switch {
		case s.MultipleOf == nil:
		case step == nil:
			step = s.MultipleOf
		default:
			step = common(step, s.MultipleOf)
		}
	}
	return step
}

// drawn draws an integer from first to last; of a very long range, from its first 2^62.
func (m *instances) drawn(first, last *big.Int) *big.Int {
	n := new(big.Int).Sub(last, first)
	if n.IsInt64() && n.Int64() < 1<<62 {
		n.SetInt64(m.rng.Int64N(n.Int64() + 1))
	} else {
		n.SetInt64(m.rng.Int64N(1 << 62))
	}
	return n.Add(n, first)
}

// bounds returns those of a schema, or what is near to them or to zero.
func (m *instances) bounds(low, high *big.Rat) (from, to *big.Rat) {
	span := big.NewRat([]int64{10, 100, 1000}[m.rng.IntN(3)], 1)
	switch {
	case low == nil && high == nil:
		return new(big.Rat), span
	case low == nil:
		if zero := new(big.Rat); zero.Cmp(high) < 0 && high.Cmp(span) <= 0 {
			return zero, high
		}
		return new(big.Rat).Sub(high, span), high
	case high == nil:
		return low, new(big.Rat).Add(low, span)
	}
	return low, high
}

// fineStep returns a power of ten of which there are at least a hundred between two bounds, at most a hundredth.
func fineStep(low, high *big.Rat) *big.Rat {
	span, step, ten := new(big.Rat).Sub(high, low), big.NewRat(1, 100), big.NewRat(10, 1)
	for range 300 {
		if span.Sign() == 0 || new(big.Rat).Quo(span, step).Cmp(big.NewRat(100, 1)) >= 0 {
			break
		}
		step.Quo(step, ten)
	}
	if span.Sign() == 0 && low.Sign() != 0 {
		return new(big.Rat).Abs(low) // the only one
	}
	return step
}

// common returns the smallest number that is a multiple of two.
func common(a, b *big.Rat) *big.Rat {
	q := new(big.Rat).Quo(a, b) // a = n/d * b, and n*b is d*a
	return new(big.Rat).Mul(b, new(big.Rat).SetInt(q.Num()))
}

func roundUp(r *big.Rat) *big.Int {
	n := roundDown(new(big.Rat).Neg(r))
	return n.Neg(n)
}

func roundDown(r *big.Rat) *big.Int { // the denominator is positive, for which Div rounds down
	return new(big.Int).Div(r.Num(), r.Denom())
}
