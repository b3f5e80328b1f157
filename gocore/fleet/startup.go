package fleet

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"dynosim/gocore/engineargs"
)

// startUps is how long the workers of a pool take to start: seconds on average, with a coefficient of variation. Times
// that vary are lognormal. Each worker has random numbers of its own, so that it takes as long whatever happens before.
//
//	sigma^2 = ln(1 + cv^2)    mu = -sigma^2/2    time = seconds * exp(mu + sigma*N(0, 1))
type startUps struct {
	seconds, cv float64
	seed        uint64
	stream      uint64 // of the pool
}

// Streams of random numbers, of which each worker has one.
const (
	prefillStartUps = iota << 32
	decodeStartUps
)

func startUpsOf(args engineargs.Args, seed, stream uint64) startUps {
	return startUps{seconds: args.StartupSeconds, cv: args.StartupCV, seed: seed, stream: stream}
}

// ms returns the time of a worker, in milliseconds.
func (s startUps) ms(id int) float64 {
	ms := 1000 * s.seconds
	if s.cv == 0 {
		return ms
	}
	variance := math.Log1p(s.cv * s.cv)
	unit := distuv.LogNormal{Mu: -variance / 2, Sigma: math.Sqrt(variance),
		Src: rand.NewPCG(s.seed, s.stream+uint64(id))}
	return ms * unit.Rand()
}
