package traffic

import "dynosim/gocore/workload/tracefile"

// readAzure reads the Azure LLM inference traces of 2023 and 2024: a table with TIMESTAMP, a date and time of day,
// ContextTokens and GeneratedTokens. All times have a zone or none has.
func readAzure(c *collector, sources []Source) error {
	names := columns{start: "TIMESTAMP", input: "ContextTokens", output: "GeneratedTokens"}
	zoned := false
	return readTable(c, sources[0], names, func(t *tracefile.Table, r *Request, start int, _ []int) error {
		ns, hasZone, ok := tracefile.ParseTimestamp(t.Cell(start))
		switch {
		case !ok:
			return t.Fault(start, "a date and time like 2023-11-16 18:17:03.9799600, with or without a zone like +00:00")
		case c.rows > 0 && hasZone != zoned:
			return t.Fault(start, map[bool]string{true: "a zone, as the rows before have",
				false: "no zone, as the rows before"}[zoned])
		}
		zoned = hasZone
		r.StartNs = c.at(ns)
		return nil
	})
}
