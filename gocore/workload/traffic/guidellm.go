package traffic

import "dynosim/gocore/workload/tracefile"

// readGuideLLM reads the JSON report of GuideLLM: the requests of all its benchmarks, at the times at which they were
// sent. Those that failed or were not complete at the end are left out. The turns of a conversation follow each other.
func readGuideLLM(c *collector, sources []Source) error {
	c.Unit = "request"
	d, err := tracefile.OpenDocument(sources[0].Name, sources[0].Reader, c.Poll)
	if err != nil {
		return err
	}
	benchmark := func(int) error {
		given, err := d.Object([]tracefile.Key{{Name: "requests", Read: func() error { return readStatuses(c, d) }}})
		if err == nil && !has(given, 0) {
			return d.Missing("requests", "the requests of the benchmark")
		}
		return err
	}
	given, err := d.Object([]tracefile.Key{{Name: "benchmarks", Read: func() error { return d.Array(benchmark) }}})
	switch {
	case err != nil:
		return err
	case !has(given, 0):
		return d.Missing("benchmarks", "the list of benchmarks of a GuideLLM report")
	case d.More():
		return d.Faultf("a second report, want one file for each")
	}
	c.sort()
	c.linkSessions()
	return nil
}

// readStatuses reads the requests of a benchmark by how they ended.
func readStatuses(c *collector, d *tracefile.Document) error {
	skipped := func() error {
		return d.Array(func(int) error {
			if err := d.Skip(); err != nil {
				return err
			}
			return c.leaveOut(failed)
		})
	}
	_, err := d.Object([]tracefile.Key{
		{Name: "successful", Read: func() error {
			return d.Array(func(int) error { return readGuideLLMRequest(c, d) })
		}},
		{Name: "errored", Read: skipped},
		{Name: "incomplete", Read: skipped},
	})
	return err
}

func readGuideLLMRequest(c *collector, d *tracefile.Document) error {
	r := Request{Place: int32(c.rows + 1), Session: -1, After: -1}
	var start, end int64
	var conversation string
	given, err := d.Object([]tracefile.Key{
		{Name: "prompt_tokens", Read: intoCount(d, &r.Input, maxInput)},
		{Name: "output_tokens", Read: intoCount(d, &r.Output, maxOutput)},
		{Name: "request_start_time", Read: intoTime(d.Seconds, &start)},
		{Name: "start_time", Read: intoTime(d.Seconds, &start)}, // before release 0.4
		{Name: "request_end_time", Read: intoTime(d.Seconds, &end)},
		{Name: "end_time", Read: intoTime(d.Seconds, &end)},
		{Name: "info", Read: func() error {
			_, err := d.Object([]tracefile.Key{{Name: "conversation_id", Read: intoText(d, &conversation)}})
			return err
		}},
	})
	switch {
	case err != nil:
		return err
	case !has(given, 0):
		return d.Missing("prompt_tokens", "the tokens of the prompt")
	case !has(given, 1):
		return c.leaveOut(failed)
	case !has(given, 2) && !has(given, 3):
		return d.Missing("request_start_time", "the time at which the request was sent, in seconds")
	}
	r.StartNs = c.at(start)
	if r.EndNs = r.StartNs; has(given, 4) || has(given, 5) {
		r.EndNs = c.at(end)
	}
	if conversation != "" {
		r.Session = c.session(conversation)
	}
	return c.add(r)
}
