package traffic

import "dynosim/gocore/workload/tracefile"

// columns says where a table has what a request needs. A table may have more columns.
type columns struct {
	start, input, output string
	untimed              bool     // the start may be missing
	zeroFailed           bool     // an output of 0 tokens means that the request failed
	more                 []string // columns that only some files have
}

// readTable adds the rows of a table in the order of their arrivals. take completes a request of which only place and
// lengths are known: start is the column of the arrival, -1 if there is none, and more those of columns.more.
func readTable(c *collector, source Source, names columns,
	take func(t *tracefile.Table, r *Request, start int, more []int) error) error {
	t, err := tracefile.OpenTable(source.Name, source.Reader)
	if err != nil {
		return err
	}
	wanted, optional := []string{names.start, names.input, names.output}, names.more
	if names.untimed {
		wanted, optional = wanted[1:], append([]string{names.start}, names.more...)
	}
	found, err := t.Columns(wanted, optional)
	if err != nil {
		return err
	}
	start, input, output, own := found[0], found[1], found[2], found[3:]
	if names.untimed {
		start, input, output = output, start, input
	}
	var r Request // of all rows: take would make each one an allocation
	for {
		more, err := t.Next()
		if err != nil {
			return err
		}
		if !more {
			c.sort()
			return nil
		}
		prompt, asked, err := t.Count(input, maxInput)
		if err != nil {
			return err
		}
		if !asked {
			return t.Fault(input, "a number of tokens")
		}
		answer, answered, err := t.Count(output, maxOutput)
		if err != nil {
			return err
		}
		r = Request{Place: int32(t.Line()), Session: -1, After: -1, Input: int32(prompt), Output: int32(answer)}
		if err := take(t, &r, start, own); err != nil {
			return err
		}
		answered = answered && (answer > 0 || !names.zeroFailed)
		if err := c.addAnswered(r, answered); err != nil {
			return err
		}
	}
}
