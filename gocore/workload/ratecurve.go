package workload

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"dynosim/gocore/workload/tracefile"
)

// RateCurve is a rate of arrivals that changes with time: lines between points. Two points of one time make a step. It
// goes on from its beginning after the last point.
//
// Sessions start where the integral of the rate, the number of sessions that are due, reaches given values. So any
// process with a mean gap of 1 becomes one with the rate of the curve; exponential gaps become a Poisson process whose
// rate changes.
type RateCurve struct {
	path   string
	points []ratePoint // none before ReadFile
}

// ratePoint is one row of the file. due is the integral of the rate up to it.
type ratePoint struct{ s, rps, due float64 }

// NewRateCurve returns the curve of a file, which is read later.
func NewRateCurve(path string) *RateCurve { return &RateCurve{path: path} }

// File returns the path of the file.
func (c *RateCurve) File() string { return c.path }

var curveColumns = []string{"time_s", "rate_rps"}

// maxCurveSeconds is 10,000 years.
const maxCurveSeconds = 3.15e11

// ReadFile reads the points, a table with the columns time_s and rate_rps.
func (c *RateCurve) ReadFile(src Source) error {
	table, err := tracefile.OpenTable(src.Name, src.Reader)
	if err != nil {
		return err
	}
	columns, err := table.Columns(curveColumns, nil)
	if err != nil {
		return err
	}
	var points []ratePoint
	for {
		switch more, err := table.Next(); {
		case err != nil:
			return err
		case !more:
			c.points = points
			return c.check(src.Name)
		}
		if points, err = addPoint(points, table, columns[0], columns[1]); err != nil {
			return err
		}
	}
}

// addPoint adds the row that the table is at.
func addPoint(points []ratePoint, table *tracefile.Table, timeColumn, rateColumn int) ([]ratePoint, error) {
	s, err := table.Number(timeColumn)
	if err != nil {
		return nil, err
	}
	rps, err := table.Number(rateColumn)
	switch {
	case err != nil:
		return nil, err
	case len(points) == 0 && s != 0:
		return nil, table.Fault(timeColumn, "0, as the curve begins at 0 s")
	case s > maxCurveSeconds:
		return nil, table.Fault(timeColumn, fmt.Sprintf("at most %v s", maxCurveSeconds))
	case len(points) == 0:
		return append(points, ratePoint{0, rps, 0}), nil
	}
	last := points[len(points)-1]
	if s < last.s {
		return nil, table.Fault(timeColumn,
			fmt.Sprintf("a time that is not before that of the row above, %v s", last.s))
	}
	return append(points, ratePoint{s, rps, last.due + float64((s-last.s)*(last.rps+rps))/2}), nil
}

func (c *RateCurve) check(name string) error {
	switch {
	case len(c.points) < 2:
		return fmt.Errorf("%s: got %d rows, want two or more", name, len(c.points))
	case c.seconds() == 0:
		return fmt.Errorf("%s: all rows have the time 0 s, want a curve that ends later", name)
	case c.due() == 0:
		return fmt.Errorf("%s: the rate is 0 all the time, want a rate above 0 in some row", name)
	case math.IsInf(c.due(), 0):
		return errors.New(name + ": the rates are too high, want numbers whose integral is finite")
	}
	return nil
}

func (c *RateCurve) seconds() float64 { return c.points[len(c.points)-1].s }

// due returns the number of sessions that are due while the curve is gone through once.
func (c *RateCurve) due() float64 { return c.points[len(c.points)-1].due }

// MeanRPS returns the mean rate.
func (c *RateCurve) MeanRPS() float64 { return c.due() / c.seconds() }

// Expected returns how many sessions start on average while the curve is gone through once.
func (c *RateCurve) Expected() int { return int(math.Ceil(min(c.due(), MaxTurns+1))) }

// atMs returns when the integral of the rate exceeds due, in milliseconds. Within a line of rates a + m*x it is where
//
//	a*x + m/2*x^2 = due    x = 2*due / (a + sqrt(a^2 + 2*m*due))
func (c *RateCurve) atMs(due float64) float64 {
	rounds := math.Floor(due / c.due())
	due = min(max(0, due-float64(rounds*c.due())), c.due())
	end := sort.Search(len(c.points), func(i int) bool { return c.points[i].due > due })
	if end == len(c.points) { // the very end of a round, by rounding
		return 1000 * float64((rounds+1)*c.seconds())
	}
	from, to := c.points[end-1], c.points[end]
	due -= from.due
	slope := (to.rps - from.rps) / (to.s - from.s)
	x := 0.0
	if due > 0 {
		x = 2 * due / (from.rps + math.Sqrt(max(0, float64(from.rps*from.rps)+float64(2*slope*due))))
	}
	return 1000 * (float64(rounds*c.seconds()) + min(from.s+x, to.s))
}
