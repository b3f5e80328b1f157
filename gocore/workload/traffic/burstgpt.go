package traffic

import "dynosim/gocore/workload/tracefile"

// readBurstGPT reads BurstGPT: a table with Timestamp in seconds, Request tokens and Response tokens, and in newer
// releases Session ID and Elapsed time. A request without response tokens failed. Requests of one session are sent one
// after another, with the pauses that the client made.
func readBurstGPT(c *collector, sources []Source) error {
	names := columns{
		start: "Timestamp", input: "Request tokens", output: "Response tokens",
		zeroFailed: true, more: []string{"Session ID", "Elapsed time"},
	}
	err := readTable(c, sources[0], names, func(t *tracefile.Table, r *Request, start int, more []int) error {
		ns, err := t.Seconds(start)
		if err != nil {
			return err
		}
		r.StartNs = c.at(ns)
		r.EndNs = r.StartNs
		session, elapsed := more[0], more[1]
		if t.Cell(elapsed) != "" {
			duration, err := t.Seconds(elapsed)
			if err != nil {
				return err
			}
			if duration < 0 {
				return t.Fault(elapsed, "a number of seconds >= 0")
			}
			r.EndNs += duration
		}
		if name := t.Cell(session); name != "" {
			r.Session = c.session(name)
		}
		return nil
	})
	c.linkSessions()
	return err
}
