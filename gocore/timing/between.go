package timing

import (
	"fmt"
	"math/bits"
)

// Between returns a source of predictions that asks another one for a grid of shapes only, and draws straight lines
// between them: of new tokens and of those before them it asks for 0 to 8, and four of each doubling beyond (10, 12,
// 14, 16, 20 ...). Batches are asked for as they are, because kernels take steps there. Shapes on the grid get the very
// answer. Where the other source knows no answer of the grid, it is asked for the shape itself.
//
// Answers depend on the shape alone, not on what was asked before. It is for one goroutine at a time.
func Between(ask func([]Question) ([]Answer, error)) func([]Question) ([]Answer, error) {
	g := &grid{ask: ask, known: map[Question]Answer{}}
	return g.predict
}

// grid keeps what was asked.
type grid struct {
	ask    func([]Question) ([]Answer, error)
	known  map[Question]Answer
	asking []Question // scratch
}

// predict returns an answer to each question.
func (g *grid) predict(questions []Question) ([]Answer, error) {
	g.asking = g.asking[:0]
	for _, q := range questions {
		corners(q, func(corner Question, _ float64) { g.want(corner) })
	}
	if err := g.fetch(); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(questions))
	g.asking = g.asking[:0]
	for i, q := range questions {
		answers[i] = g.mean(q)
		if answers[i].Err != nil {
			g.want(q)
		}
	}
	if len(g.asking) == 0 {
		return answers, nil
	}
	if err := g.fetch(); err != nil {
		return nil, err
	}
	for i, q := range questions {
		if answers[i].Err != nil {
			answers[i] = g.known[q]
		}
	}
	return answers, nil
}

// want adds a question to those that are asked next, unless its answer is known.
func (g *grid) want(q Question) {
	if _, known := g.known[q]; !known {
		g.known[q] = Answer{}
		g.asking = append(g.asking, q)
	}
}

// fetch asks what is wanted.
func (g *grid) fetch() error {
	if len(g.asking) == 0 {
		return nil
	}
	answers, err := g.ask(g.asking)
	if err != nil {
		return err
	}
	if len(answers) != len(g.asking) {
		return fmt.Errorf("got %d answers to %d questions", len(answers), len(g.asking))
	}
	for i, q := range g.asking {
		g.known[q] = answers[i]
	}
	return nil
}

// mean returns the weighted mean of the answers around q.
func (g *grid) mean(q Question) Answer {
	var sum Answer
	corners(q, func(corner Question, weight float64) {
		answer := g.known[corner]
		if answer.Err != nil {
			sum.Err = answer.Err
		}
		sum.Ms += float64(weight * answer.Ms)
	})
	return sum
}

// corners calls yield with the shapes of the grid around q and their weights, which add up to 1.
func corners(q Question, yield func(corner Question, weight float64)) {
	tokens, prefix := around(q.Tokens), around(q.Prefix)
	for _, t := range tokens {
		for _, p := range prefix {
			if weight := t.weight * p.weight; weight > 0 {
				yield(Question{q.Kind, q.Batch, t.size, p.size}, weight)
			}
		}
	}
}

// point is a size of the grid.
type point struct {
	size   int
	weight float64
}

// around returns the sizes of the grid below and above n, the nearer with the larger weight. The weight of the second
// is 0 if n is on the grid.
func around(n int) [2]point {
	step := 1
	if octave := bits.Len(uint(max(n, 0))); octave > 3 {
		step = 1 << (octave - 3)
	}
	below := n / step * step
	part := float64(n-below) / float64(step)
	return [2]point{{below, 1 - part}, {below + step, part}}
}
