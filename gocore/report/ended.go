package report

// Ended returns the number of requests that are over: completed, rejected, failed or cancelled.
func (c *Collector) Ended() int {
	n := 0
	for i := range c.records {
		if c.records[i].status != unfinished {
			n++
		}
	}
	return n
}
