package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Fault is a fault on purpose, for tests of clients: it meets a share of the requests.
type Fault struct {
	Share   float64 `json:"share"`
	Status  int     `json:"status"`
	Message string  `json:"message"`
	// RetryAfter is in seconds.
	RetryAfter int     `json:"retry_after_s"`
	DelayMs    float64 `json:"delay_ms"`
	// BreakAfter is the number of tokens after which the connection is broken off; it needs no stream.
	BreakAfter *int   `json:"break_after_tokens"`
	Model      string `json:"model"`
	Path       string `json:"path"`
}

// Faults decide which request meets which fault.
type Faults struct {
	list []Fault
	mu   sync.Mutex
	rng  *rand.Rand
}

// ParseFaults reads a JSON object, or a list of them. Equal seeds give equal decisions to requests in equal order.
func ParseFaults(text string, seed uint64) (*Faults, error) {
	var list []Fault
	options := json.RejectUnknownMembers(true)
	if err := json.Unmarshal([]byte(text), &list, options); err != nil {
		var one Fault
		if second := json.Unmarshal([]byte(text), &one, options); second != nil {
			return nil, second
		}
		list = []Fault{one}
	}
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, err
		}
	}
	return &Faults{list: list, rng: rand.New(rand.NewPCG(seed, uint64(len(list))))}, nil
}

func (f *Fault) check() error {
	switch {
	case f.Share < 0 || f.Share > 1:
		return fmt.Errorf("share: got %v, want a number from 0 to 1", f.Share)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status: got %d, want a number from 400 to 599", f.Status)
	case f.DelayMs < 0 || f.DelayMs > 3.6e6:
		return fmt.Errorf("delay_ms: got %v, want milliseconds from 0 to an hour", f.DelayMs)
	case f.BreakAfter != nil && *f.BreakAfter < 0:
		return fmt.Errorf("break_after_tokens: got %d, want an integer >= 0", *f.BreakAfter)
	case f.RetryAfter < 0:
		return fmt.Errorf("retry_after_s: got %d, want seconds >= 0", f.RetryAfter)
	case f.Status == 0 && f.DelayMs == 0 && f.BreakAfter == nil:
		return fmt.Errorf("nothing happens: want status, delay_ms or break_after_tokens")
	}
	return nil
}

// draw decides what a request meets.
func (f *Faults) draw(path, model string) *injected {
	if f == nil {
		return nil
	}
	var i injected
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.list {
		fault := &f.list[n]
		if fault.Path != "" && fault.Path != path || fault.Model != "" && fault.Model != model || f.rng.Float64() >= fault.Share {
			continue
		}
		i.delay += time.Duration(fault.DelayMs * 1e6)
		if fault.Status != 0 && i.problem == nil {
			i.problem = fault.problem()
		}
		if fault.BreakAfter != nil && i.breakAfter == nil {
			i.breakAfter = fault.BreakAfter
		}
	}
	return &i
}

func (f *Fault) problem() *problem {
	p := &problem{status: f.Status, kind: "server_error", code: "injected", message: f.Message, retryAfter: f.RetryAfter}
	if f.Status < 500 {
		p.kind = "invalid_request_error"
	}
	if f.Status == http.StatusTooManyRequests {
		p.kind = "rate_limit_error"
	}
	if p.message == "" {
		p.message = "a fault that --inject-errors asks for"
	}
	return p
}

// injected is what one request meets.
type injected struct {
	delay      time.Duration
	problem    *problem
	breakAfter *int
}

// meet waits, and returns the error that the request gets, nil for none.
func (i *injected) meet(ctx context.Context) error {
	if i == nil {
		return nil
	}
	if i.delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(i.delay):
		}
	}
	if i.problem == nil {
		return nil
	}
	return i.problem
}

// breaks reports whether the connection is to be broken off now.
func (i *injected) breaks(choices []*choice) bool {
	if i == nil || i.breakAfter == nil {
		return false
	}
	sent := 0
	for _, c := range choices {
		sent += c.sent
	}
	return sent >= *i.breakAfter
}

type injectedKey struct{}

func injectedInto(ctx context.Context) *injected {
	i, _ := ctx.Value(injectedKey{}).(*injected)
	return i
}
