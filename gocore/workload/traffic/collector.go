package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bounds of what one file can ask for.
const (
	MaxRequests = 1 << 25 // a few gigabytes
	maxInput    = 1 << 27 // tokens of a prompt, as long as those of other traces
	maxOutput   = math.MaxInt32
	maxBlockIDs = 1 << 20 // of a prompt
)

// pollEvery is the number of requests between two calls of Options.Poll.
const pollEvery = 256

// What is done with requests that cannot be replayed as they are.
const (
	failed      = "failed, was cancelled or has no answer: left out"
	emptyPrompt = "the prompt has no tokens: left out"
	emptyAnswer = "the answer has no tokens: replayed with one"
	warmUp      = "part of the warm-up: left out"
)

// collector gathers the requests of a trace.
type collector struct {
	Trace
	Options
	file     string // as errors call it
	rows     int    // with those left out
	origin   int64  // of times: that of the first request
	original bool   // origin is set
	untimed  int    // requests without arrival time
	sessions map[string]int32
	blockIDs map[uint64]uint32 // of the scope
	nextID   uint64
}

func newCollector(file string, o Options) *collector {
	return &collector{Trace: Trace{Unit: "line"}, Options: o, file: file, sessions: map[string]int32{},
		blockIDs: map[uint64]uint32{}}
}

// add appends a request. Requests without a prompt are left out, and an answer has one token at least.
func (c *collector) add(r Request) error {
	if err := c.count(); err != nil {
		return err
	}
	switch {
	case r.Input == 0:
		c.note(emptyPrompt)
		return nil
	case r.Output == 0:
		c.note(emptyAnswer)
		r.Output = 1
	}
	if len(c.Requests) == MaxRequests {
		return fmt.Errorf("%s: more than %d requests, the limit", c.file, MaxRequests)
	}
	c.Requests = append(c.Requests, r)
	return nil
}

// addAnswered appends a request that was answered, and leaves one out that was not.
func (c *collector) addAnswered(r Request, answered bool) error {
	if !answered {
		return c.leaveOut(failed)
	}
	return c.add(r)
}

// leaveOut counts a request that is not replayed.
func (c *collector) leaveOut(why string) error {
	c.note(why)
	return c.count()
}

func (c *collector) count() error {
	if c.rows++; c.Poll != nil && c.rows%pollEvery == 0 {
		return c.Poll()
	}
	return nil
}

func (c *collector) note(what string) {
	for i := range c.Notes {
		if c.Notes[i].What == what {
			c.Notes[i].Requests++
			return
		}
	}
	c.Notes = append(c.Notes, Note{Requests: 1, What: what})
}

// at returns a time as nanoseconds from the first request on.
func (c *collector) at(ns int64) int64 {
	if !c.original {
		c.origin, c.original = ns, true
	}
	return ns - c.origin
}

// session returns the number of the session of this name.
func (c *collector) session(name string) int32 {
	number, known := c.sessions[name]
	if !known {
		number = int32(len(c.Names))
		c.sessions[name] = number
		c.Names = append(c.Names, name)
	}
	return number
}

// localIDs makes block ids that are read from now on differ from those read before.
func (c *collector) localIDs() { c.blockIDs = map[uint64]uint32{} }

// blocks turns block ids of a file into those of the trace, which are small and the same for all files.
func (c *collector) blocks(ids []uint64) ([]uint32, error) {
	numbers := make([]uint32, len(ids))
	for i, id := range ids {
		number, known := c.blockIDs[id]
		if !known {
			if c.nextID > math.MaxUint32 {
				return nil, fmt.Errorf("%s: more than %d different block ids, the limit", c.file,
					uint32(math.MaxUint32))
			}
			number = uint32(c.nextID)
			c.blockIDs[id] = number
			c.nextID++
		}
		numbers[i] = number
	}
	return numbers, nil
}

// sort puts the requests into the order of their arrivals.
func (c *collector) sort() {
	byStart := func(a, b Request) int { return cmp.Compare(a.StartNs, b.StartNs) }
	if !slices.IsSortedFunc(c.Requests, byStart) {
		slices.SortStableFunc(c.Requests, byStart)
	}
}

// linkSessions makes each request wait for the one before in its session, and then for as long as the client did.
func (c *collector) linkSessions() {
	last := make([]int32, len(c.Names))
	for i := range last {
		last[i] = -1
	}
	for i := range c.Requests {
		r := &c.Requests[i]
		if r.Session < 0 {
			continue
		}
		if earlier := last[r.Session]; earlier >= 0 {
			r.After, r.DelayNs = earlier, max(0, r.StartNs-c.Requests[earlier].EndNs)
		}
		last[r.Session] = int32(i)
	}
}

// finish checks the whole and moves the first arrival to 0.
func (c *collector) finish() (*Trace, error) {
	for i := range c.Notes {
		c.Notes[i].All = c.rows
	}
	if len(c.Requests) == 0 {
		return nil, c.noRequests()
	}
	if c.untimed > 0 && c.untimed < c.rows {
		return nil, fmt.Errorf("%s: %d of %d requests have no arrival time, want one for all or for none", c.file,
			c.untimed, c.rows)
	}
	c.Timed = c.untimed == 0
	earliest := c.Requests[0].StartNs
	for i := range c.Requests {
		earliest = min(earliest, c.Requests[i].StartNs)
	}
	for i := range c.Requests {
		c.Requests[i].StartNs -= earliest
		c.Requests[i].EndNs -= earliest
	}
	return &c.Trace, nil
}

func (c *collector) noRequests() error {
	if c.rows == 0 {
		return fmt.Errorf("%s: holds no requests", c.file)
	}
	reasons := []error{fmt.Errorf("%s: holds no requests that can be replayed", c.file)}
	for _, note := range c.Notes {
		reasons = append(reasons, errors.New(note.String()))
	}
	return joined(reasons)
}

// joined returns several errors on one line.
func joined(parts []error) error {
	err := parts[0]
	for _, part := range parts[1:] {
		err = fmt.Errorf("%w; %w", err, part)
	}
	return err
}
