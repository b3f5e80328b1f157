package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Timeline is the readable record of a run: a row for each pass, and a line for each request.
type Timeline struct {
	Rows []Row
}

// Row is a pass: what it did, in cells, and behind which of them its end is shown. A row of pass 0 is only its first
// cell.
type Row struct {
	Pass           int
	StartMs, EndMs float64
	Cells          []string
}

// endColumn is the cell before which the end of a pass is shown.
const endColumn = 3

func (r *Row) texts() []string {
	if r.Pass == 0 {
		return r.Cells[:1]
	}
	texts := append([]string{fmt.Sprintf("pass %d", r.Pass), "t=" + ms(r.StartMs)}, r.Cells...)
	return slices.Insert(texts, 2+endColumn, "end="+ms(r.EndMs))
}

// Write aligns the columns and says once what repeats many times.
func (l *Timeline) Write(b *strings.Builder) {
	var lines [][]string
	var widths []int
	for i := 0; i < len(l.Rows); {
		period, times := l.cycle(i)
		for _, r := range l.Rows[i : i+period] {
			texts := r.texts()
			for column, text := range texts {
				if column == len(widths) {
					widths = append(widths, 0)
				}
				if r.Pass > 0 {
					widths[column] = max(widths[column], len(text))
				}
			}
			lines = append(lines, texts)
		}
		i += period
		if more := (times - 1) * period; more > 0 {
			i += more
			repeated := fmt.Sprintf("... %s more passes that repeat the %d above, to t=%s", grouped(more), period,
				ms(l.Rows[i-1].EndMs))
			lines = append(lines, []string{repeated})
		}
	}
	for _, texts := range lines {
		var line strings.Builder
		for column, text := range texts {
			if len(texts) == 1 {
				line.WriteString(text)
			} else {
				fmt.Fprintf(&line, "%-*s  ", widths[column], text)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// cycle finds the shortest group of rows from row i on that repeats, times aside, and how often it stands there in a
// row.
func (l *Timeline) cycle(i int) (period, times int) {
	for period = 1; period <= 16; period++ {
		end := i + period
		for end < len(l.Rows) && slices.Equal(l.Rows[end].Cells, l.Rows[end-period].Cells) {
			end++
		}
		if times = (end - i) / period; times >= 4 {
			return period, times
		}
	}
	return 1, 1
}

// WriteFates writes what became of each request.
func WriteFates(b *strings.Builder, names []string, fates []Fate) {
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	for i, name := range names {
		o := &fates[i]
		line := fmt.Sprintf("%-*s  ", width, name)
		if o.Reused != nil {
			line += fmt.Sprintf("admit=%s reused=%s ", ms(o.AdmitMs), repeats(o.Reused))
		}
		switch {
		case o.Rejected != "":
			line += "rejected: " + o.Rejected
		case o.Finished:
			line += fmt.Sprintf("first=%s last=%s", ms(o.TokenMs[0]), ms(o.TokenMs[len(o.TokenMs)-1]))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// Joined appends to text each pair of a word and what it says, unless that is empty.
func Joined(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if text != "" {
			text += "  "
		}
		text += strings.TrimSpace(pairs[i] + " " + pairs[i+1])
	}
	return text
}

// IDs reads "1..5" and "1,2,7".
func IDs(text string) (ids []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "..")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, err
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return nil, err
		}
		for ; from <= to; from++ {
			ids = append(ids, from)
		}
	}
	return ids, nil
}

// repeats prints 0 8 16 16 16 as 0,8,16*3.
func repeats(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end < len(numbers) && numbers[end] == numbers[i] {
			end++
		}
		text := strconv.Itoa(numbers[i])
		if end-i > 1 {
			text += "*" + strconv.Itoa(end-i)
		}
		parts = append(parts, text)
		i = end
	}
	return strings.Join(parts, ",")
}

// ms prints a time so that no two differ in print only.
func ms(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// grouped prints 9998 as 9,998.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
