package traffic

import "dynosim/gocore/workload/tracefile"

// readShareGPT reads token counts of ShareGPT conversations, one request a line or an element of a list: input_toks,
// output_toks, and perhaps arrival_time_ns. Token ids are passed over: only the lengths count.
func readShareGPT(c *collector, sources []Source) error {
	return readTokenCounts(c, sources[0], "arrival_time_ns", (*tracefile.Document).Nanoseconds, false)
}

// readLLMServingSim reads the requests.jsonl of LLMServingSim's measurements: input_toks, output_toks and arrival_time
// in seconds, the clock of the client.
func readLLMServingSim(c *collector, sources []Source) error {
	return readTokenCounts(c, sources[0], "arrival_time", (*tracefile.Document).Seconds, true)
}

func readTokenCounts(c *collector, source Source, arrival string, read func(*tracefile.Document) (int64, error),
	timed bool) error {
	err := eachRecord(c, source, func(d *tracefile.Document, place func() int32) error {
		r := Request{Session: -1, After: -1}
		var start int64
		given, err := d.Object([]tracefile.Key{
			{Name: "input_toks", Read: intoCount(d, &r.Input, maxInput)},
			{Name: "output_toks", Read: intoCount(d, &r.Output, maxOutput)},
			{Name: arrival, Read: intoTime(func() (int64, error) { return read(d) }, &start)},
			{Name: "conversations", Read: func() error {
				return d.Faultf("got texts, want token counts, input_toks and output_toks: count the tokens with the " +
					"tokenizer of your model")
			}},
		})
		switch {
		case err != nil:
			return err
		case !has(given, 0):
			return d.Missing("input_toks", "the tokens of the prompt")
		case has(given, 2):
			r.StartNs = c.at(start)
		case timed:
			return d.Missing(arrival, "the time of the arrival")
		default:
			c.untimed++
		}
		r.Place = place()
		return c.addAnswered(r, has(given, 1))
	})
	c.sort()
	return err
}
