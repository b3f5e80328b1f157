package traffic

import "dynosim/gocore/workload/tracefile"

// readSplitwise reads processed traces as Splitwise and Vidur have them: a table with arrived_at in seconds,
// num_prefill_tokens and num_decode_tokens. Traces of lengths only have no arrived_at.
func readSplitwise(c *collector, sources []Source) error {
	names := columns{start: "arrived_at", input: "num_prefill_tokens", output: "num_decode_tokens", untimed: true}
	return readTable(c, sources[0], names, func(t *tracefile.Table, r *Request, start int, _ []int) error {
		if start < 0 {
			c.untimed++
			return nil
		}
		ns, err := t.Seconds(start)
		if err != nil {
			return err
		}
		r.StartNs = c.at(ns)
		return nil
	})
}
