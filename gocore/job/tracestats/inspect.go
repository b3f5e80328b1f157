package tracestats

import (
	"slices"

	"dynosim/gocore/workload"
)

// Stats are the statistics of a workload. Lengths are in tokens.
type Stats struct {
	Format    string `json:"format,omitempty"` // of the trace; "" if the workload was generated
	BlockSize int    `json:"block_size"`       // of the engine, to which everything about blocks refers

	Requests    int `json:"requests"`
	Sessions    int `json:"sessions"`
	WaitingRows int `json:"waiting_requests"` // requests that wait for others, in an agentic trace

	TotalInputTokens  int64   `json:"total_input_tokens"`
	TotalOutputTokens int64   `json:"total_output_tokens"`
	InputTokens       Summary `json:"input_tokens"`
	OutputTokens      Summary `json:"output_tokens"`
	TurnsPerSession   Summary `json:"turns_per_session"`
	DelayMs           Summary `json:"delay_ms"` // before later turns, and before requests that wait for others

	Arrivals Arrivals `json:"arrivals"`
	Prefix   Prefix   `json:"prefix"`

	// LargestRequestBlocks is the number of blocks that the largest request needs for its prompt and output: a smaller
	// pool cannot run the workload.
	LargestRequestBlocks int `json:"largest_request_blocks"`

	Problems []string `json:"problems"`
}

// Arrivals describes the starts of sessions, as far as the workload gives them.
type Arrivals struct {
	Timed         int     `json:"timed_sessions"`
	FirstMs       float64 `json:"first_ms"`
	SpanMs        float64 `json:"span_ms"` // from the first to the last start
	RatePerSecond float64 `json:"sessions_per_second"`
	GapMs         Summary `json:"gap_ms"` // between starts in order of time
	GapCV         float64 `json:"gap_cv"` // standard deviation of the gaps divided by their mean
}

// Inspect computes the statistics of a workload that was read or generated for an engine with blocks of blockSize
// tokens.
func Inspect(w *workload.Workload, blockSize int) Stats {
	s := Stats{BlockSize: blockSize, Requests: len(w.Turns)}
	if w.File != "" {
		s.Format = w.Format.String()
	}
	inputs, outputs := make([]float64, 0, len(w.Turns)), make([]float64, 0, len(w.Turns))
	var delays []float64
	session, sessions := sessionOf(w)
	s.Sessions = sessions
	turns := make([]float64, sessions)
	for i := range w.Turns {
		t := &w.Turns[i]
		inputs, outputs = append(inputs, float64(t.InputTokens)), append(outputs, float64(t.OutputTokens))
		s.TotalInputTokens += int64(t.InputTokens)
		s.TotalOutputTokens += int64(t.OutputTokens)
		s.LargestRequestBlocks = max(s.LargestRequestBlocks, (t.InputTokens+t.OutputTokens-1)/blockSize+1)
		turns[session[i]]++
		waits := w.WaitFor != nil && len(w.WaitFor[i]) > 0
		if waits {
			s.WaitingRows++
		}
		if waits || w.Sessions[t.Session].First != int32(i) {
			delays = append(delays, t.DelayMs)
		}
	}
	s.InputTokens, s.OutputTokens, s.DelayMs = summarise(inputs), summarise(outputs), summarise(delays)
	s.TurnsPerSession = summarise(turns)
	s.Arrivals = arrivals(w)
	s.Prefix = prefix(w, session, blockSize)
	s.Problems = problems(w, &s)
	return s
}

// sessionOf numbers the sessions of all turns. In an agentic trace, in which every row starts by itself, these are the
// rows with one label.
func sessionOf(w *workload.Workload) (of []int32, count int) {
	of = make([]int32, len(w.Turns))
	for i := range of {
		of[i] = w.Turns[i].Session
	}
	if w.WaitFor == nil {
		return of, len(w.Sessions)
	}
	numbers := make(map[string]int32)
	for i := range of {
		name := w.SessionName(int32(i))
		number, known := numbers[name]
		if !known {
			number = int32(len(numbers))
			numbers[name] = number
		}
		of[i] = number
	}
	return of, len(numbers)
}

// arrivals describes the starts of sessions that wait for no other request.
func arrivals(w *workload.Workload) Arrivals {
	starts := make([]float64, 0, len(w.Sessions))
	for i := range w.Sessions {
		session := &w.Sessions[i]
		if session.Timed && (w.WaitFor == nil || len(w.WaitFor[session.First]) == 0) {
			starts = append(starts, session.StartMs)
		}
	}
	a := Arrivals{Timed: len(starts)}
	if len(starts) == 0 {
		return a
	}
	slices.Sort(starts)
	gaps := make([]float64, len(starts)-1)
	for i := range gaps {
		gaps[i] = starts[i+1] - starts[i]
	}
	a.FirstMs, a.SpanMs, a.GapMs = starts[0], starts[len(starts)-1]-starts[0], summarise(gaps)
	if a.GapMs.Mean > 0 {
		a.RatePerSecond, a.GapCV = 1000/a.GapMs.Mean, a.GapMs.Std/a.GapMs.Mean
	}
	return a
}
