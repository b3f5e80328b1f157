package traffic

import (
	"math"

	"dynosim/gocore/workload/tracefile"
)

// eachRecord reads the objects of a file: one after another, as in JSONL, or the elements of one list. place is what
// messages call an object by: its line, or its number in the list.
func eachRecord(c *collector, source Source, record func(d *tracefile.Document, place func() int32) error) error {
	d, err := tracefile.OpenDocument(source.Name, source.Reader, c.Poll)
	if err != nil {
		return err
	}
	line := func() int32 { return int32(min(d.Line(), math.MaxInt32)) }
	for d.More() {
		if !d.IsArray() {
			if err := record(d, line); err != nil {
				return err
			}
			continue
		}
		c.Unit = "request"
		err := d.Array(func(i int) error {
			return record(d, func() int32 { return int32(min(i+1, math.MaxInt32)) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// intoCount returns a reader of a number of tokens.
func intoCount(d *tracefile.Document, into *int32, limit int64) func() error {
	return func() error {
		n, err := d.Count(limit)
		*into = int32(n)
		return err
	}
}

// intoTime returns a reader of a time.
func intoTime(read func() (int64, error), into *int64) func() error {
	return func() (err error) {
		*into, err = read()
		return err
	}
}

// intoText returns a reader of a text.
func intoText(d *tracefile.Document, into *string) func() error {
	return func() (err error) {
		*into, err = d.Text()
		return err
	}
}

// has reports whether the key of this number has a value.
func has(given uint64, key int) bool { return given&(1<<key) != 0 }
