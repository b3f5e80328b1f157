package storage

// Fetch is the beginning of a prompt on its way to the host of a worker, for a request that waits for it.
type Fetch struct {
	Read    *Read
	UntilMs float64 // when the request goes on with what has come, +Inf for never
}

// NextMs returns when the fetch or the wait for it ends. A wait that ended by nowMs is left out: the request has not
// been looked at since.
func (f *Fetch) NextMs(nowMs float64) float64 {
	if f.UntilMs > nowMs {
		return min(f.Read.EndMs(), f.UntilMs)
	}
	return f.Read.EndMs()
}
