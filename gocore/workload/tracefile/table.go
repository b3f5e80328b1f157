package tracefile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table reads a table of cells with commas between them, one row a line. Lines without any text are skipped but
// counted.
type Table struct {
	name   string
	lines  *Lines
	line   int
	header []string // nil if the columns have no names
	cells  []string
}

// OpenTable reads the names of the columns from the first line.
func OpenTable(name string, r io.Reader) (*Table, error) {
	t, err := OpenRows(name, r)
	if err != nil {
		return nil, err
	}
	more, err := t.Next()
	switch {
	case err != nil:
		return nil, err
	case !more:
		return nil, fmt.Errorf("%s: is empty, want a line with the names of the columns", name)
	}
	t.header = append([]string(nil), t.cells...)
	return t, nil
}

// OpenRows reads a table without names of columns.
func OpenRows(name string, r io.Reader) (*Table, error) {
	lines, err := NewLines(r)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return &Table{name: name, lines: lines}, nil
}

// Columns finds columns by their names. Those in optional may be missing: their number is then -1.
func (t *Table) Columns(wanted, optional []string) ([]int, error) {
	columns := make([]int, 0, len(wanted)+len(optional))
	for i, name := range append(append([]string(nil), wanted...), optional...) {
		at := -1
		for k, column := range t.header {
			switch {
			case !strings.EqualFold(column, name):
			case at >= 0:
				return nil, fmt.Errorf("%s line %d: %s: two columns have this name, want one", t.name, t.line, name)
			default:
				at = k
			}
		}
		if at < 0 && i < len(wanted) {
			return nil, fmt.Errorf("%s line %d: %s: no column has this name, want a header with %s", t.name, t.line,
				name, strings.Join(wanted, ","))
		}
		columns = append(columns, at)
	}
	return columns, nil
}

// Next reads a row. It returns false at the end of the file.
func (t *Table) Next() (bool, error) {
	for {
		text, err := t.lines.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		t.line++
		blank := false
		if err == nil {
			blank, err = t.take(text)
		}
		if err != nil {
			return false, fmt.Errorf("%s line %d: %w", t.name, t.line, err)
		}
		if !blank {
			return true, nil
		}
	}
}

// take makes the row of a line, unless the line is blank.
func (t *Table) take(text []byte) (blank bool, err error) {
	switch {
	case t.line > math.MaxInt32:
		return false, fmt.Errorf("more lines than %d, the limit", math.MaxInt32)
	case !utf8.Valid(text):
		return false, errors.New("not valid UTF-8")
	}
	line := strings.TrimSpace(string(text))
	if line == "" {
		return true, nil
	}
	return false, t.split(line)
}

func (t *Table) split(line string) error {
	t.cells = t.cells[:0]
	if strings.Contains(line, `"`) {
		r := csv.NewReader(strings.NewReader(line))
		cells, err := r.Read()
		if err != nil {
			return errors.New("a quoted cell is broken, want \"...\" between two commas")
		}
		for _, cell := range cells {
			t.cells = append(t.cells, strings.TrimSpace(cell))
		}
	} else {
		for cell := range strings.SplitSeq(line, ",") {
			t.cells = append(t.cells, strings.TrimSpace(cell))
		}
	}
	if t.header != nil && len(t.cells) != len(t.header) {
		return fmt.Errorf("got %d columns, want %d as in the header", len(t.cells), len(t.header))
	}
	return nil
}

// Line returns the number of the row's line, from 1.
func (t *Table) Line() int { return t.line }

// Len returns the number of cells of the row.
func (t *Table) Len() int { return len(t.cells) }

// Cell returns the text in a column, "" for column -1.
func (t *Table) Cell(column int) string {
	if column < 0 {
		return ""
	}
	return t.cells[column]
}

// Fault returns the error of a cell that is not what it must be.
func (t *Table) Fault(column int, want string) error {
	return fmt.Errorf("%s line %d: %s: got %s, want %s", t.name, t.line, t.columnName(column), shown(t.cells[column]),
		want)
}

func (t *Table) columnName(column int) string {
	if t.header == nil {
		return fmt.Sprintf("column %d", column+1)
	}
	return t.header[column]
}

// Count reads a number of things from 0 to limit. An empty cell gives none.
func (t *Table) Count(column int, limit int64) (count int64, given bool, err error) {
	text := t.cells[column]
	if text == "" {
		return 0, false, nil
	}
	n, ok := parseCount(text, limit)
	if !ok {
		return 0, false, t.Fault(column, fmt.Sprintf("an integer from 0 to %d", limit))
	}
	return n, true, nil
}

// parseCount reads a whole number from 0 to limit. Tools that hold a column with gaps as floating-point numbers write
// 472 as 472.0.
func parseCount(text string, limit int64) (count int64, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	return n, err == nil && n >= 0 && n <= limit && strings.Trim(fraction, "0") == ""
}

// Seconds reads a time in seconds, as nanoseconds.
func (t *Table) Seconds(column int) (ns int64, err error) {
	ns, ok := ParseSeconds(t.cells[column])
	if !ok {
		return 0, t.Fault(column, "a number of seconds")
	}
	return ns, nil
}

// Number reads a number that is finite and not negative.
func (t *Table) Number(column int) (float64, error) {
	x, err := strconv.ParseFloat(t.cells[column], 64)
	if err != nil || !(x >= 0 && x-x == 0) {
		return 0, t.Fault(column, "a finite number >= 0")
	}
	return x, nil
}

// shown returns a text as errors show it: on one line and not too long.
func shown(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}
