package traffic

import "dynosim/gocore/workload/tracefile"

// aiperfRecord is a line of profile_export.jsonl.
type aiperfRecord struct {
	start, end      int64
	session, phase  string
	cancelled, lost bool
	input, output   int32
	hasStart        bool
	hasInput        bool
	hasOutput       bool
	counted         int32 // tokens of the prompt as the server counted them, with those of its chat template
	hasCounted      bool
}

// readAIPerf reads the profile_export.jsonl of AIPerf: when each request was sent, its lengths, and the session it was
// part of. The next request of a session waits for the answer and then as long as the client did. Requests of the
// warm-up and those that failed are left out. The lengths of prompts are those that the server reported, if it did:
// AIPerf's own count lacks what the chat template adds.
func readAIPerf(c *collector, sources []Source) error {
	err := eachRecord(c, sources[0], func(d *tracefile.Document, place func() int32) error {
		var a aiperfRecord
		given, err := d.Object([]tracefile.Key{
			{Name: "metadata", Read: func() error { return a.metadata(d) }},
			{Name: "metrics", Read: func() error { return a.metrics(d) }},
			{Name: "error", Read: func() error { a.lost = true; return d.Skip() }},
		})
		switch {
		case err != nil:
			return err
		case !has(given, 0) || !a.hasStart:
			return d.Missing("metadata.request_start_ns", "the time at which the request was sent")
		case a.phase == "warmup":
			return c.leaveOut(warmUp)
		}
		if a.hasCounted {
			a.input, a.hasInput = a.counted, true
		}
		r := Request{StartNs: c.at(a.start), Place: place(), Session: -1, After: -1, Input: a.input, Output: a.output}
		r.EndNs = c.at(a.end)
		switch {
		case a.cancelled || a.lost || !a.hasOutput:
			return c.leaveOut(failed)
		case !a.hasInput:
			return d.Missing("metrics.input_sequence_length", "the tokens of the prompt")
		}
		if a.session != "" {
			r.Session = c.session(a.session)
		}
		return c.add(r)
	})
	c.sort()
	c.linkSessions()
	return err
}

func (a *aiperfRecord) metadata(d *tracefile.Document) error {
	given, err := d.Object([]tracefile.Key{
		{Name: "request_start_ns", Read: intoTime(d.Nanoseconds, &a.start)},
		{Name: "request_end_ns", Read: intoTime(d.Nanoseconds, &a.end)},
		{Name: "x_correlation_id", Read: intoText(d, &a.session)},
		{Name: "benchmark_phase", Read: intoText(d, &a.phase)},
		{Name: "was_cancelled", Read: func() (err error) { a.cancelled, err = d.Bool(); return err }},
	})
	if a.hasStart = has(given, 0); !has(given, 1) {
		a.end = a.start
	}
	return err
}

func (a *aiperfRecord) metrics(d *tracefile.Document) error {
	value := func(into *int32, limit int64, found *bool) func() error {
		return func() error {
			given, err := d.Object([]tracefile.Key{{Name: "value", Read: intoCount(d, into, limit)}})
			*found = has(given, 0)
			return err
		}
	}
	_, err := d.Object([]tracefile.Key{
		{Name: "input_sequence_length", Read: value(&a.input, maxInput, &a.hasInput)},
		{Name: "usage_prompt_tokens", Read: value(&a.counted, maxInput, &a.hasCounted)},
		{Name: "output_sequence_length", Read: value(&a.output, maxOutput, &a.hasOutput)},
	})
	return err
}
