package traffic

import (
	"fmt"
	"io"
	"math/rand/v2"
)

// Source is a file that has been opened. Name is how errors call it.
type Source struct {
	Name   string
	Reader io.Reader
}

// Options say how to read traffic.
type Options struct {
	BlockSize int    // tokens that a block id stands for; 0 = as the format has it
	Seed      uint64 // of everything that is drawn
	// Gaps returns gaps between arrivals with the mean 1: their distribution is poisson, gamma or weibull, their
	// coefficient of variation cv.
	Gaps func(distribution string, cv float64, src rand.Source) func() float64
	// Poll is called now and then; an error it returns ends the reading and is passed on. It may be nil.
	Poll func() error
}

// Trace is requests in the order in which they are sent, those without arrival times in the order of the file.
type Trace struct {
	Requests []Request
	Timed    bool // requests have arrival times
	// Unit is what Request.Place counts: lines of the file, or its requests.
	Unit string
	// BlockSize is the number of tokens that a block id stands for, 0 if no request has any.
	BlockSize int
	Names     []string // of sessions, see Request.Session

	// WaitFor lists, for each request, those that must be over before it may start, if they form a graph; nil if each
	// request waits for one at most, Request.After.
	WaitFor [][]int32
	// IDs are the names of the requests of a graph.
	IDs []string

	Notes []Note
}

// Note tells what was done with some requests of all that the files hold.
type Note struct {
	Requests, All int
	What          string
}

func (n Note) String() string { return fmt.Sprintf("%d of %d requests: %s", n.Requests, n.All, n.What) }

// Request is one request.
type Request struct {
	StartNs int64 // from the first request on
	EndNs   int64 // when its answer was complete, likewise; only read with Session
	DelayNs int64 // from the end of what it waits for
	File    int32 // of the trace, from 0
	Place   int32 // in the file, from 1
	Session int32 // its name is Trace.Names[Session], none if -1
	After   int32 // the request that must be over before this one may start, none if -1
	Input   int32 // tokens
	Output  int32
	// BlockIDs name the leading blocks of the prompt: equal ids after equal ids are equal content. The rest of the
	// prompt is unlike any other.
	BlockIDs []uint32
}

// StartMs returns the arrival in milliseconds.
func (r *Request) StartMs() float64 { return float64(r.StartNs) / 1e6 }

// DelayMs returns the pause in milliseconds.
func (r *Request) DelayMs() float64 { return float64(r.DelayNs) / 1e6 }
