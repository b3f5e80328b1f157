package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dynosim/gocore/engine"
	"dynosim/gocore/router"
)

// errPolicy ends a run whose scheduler policy has failed.
var errPolicy = errors.New("the scheduler policy failed")

// Policies are the scheduler policies of all engines, whose rule is in Python. Questions are JSON objects with the key
// "scheduler"; its value is the pool: "", "prefill" or "decode".
//
//	{"scheduler":"","why":"begin"}    the answer: {"next": true, "victim": false}, what is asked for at all
//	{"scheduler":"","why":"next","worker":1,"now_ms":12.5,"requests":[7,512,0,0,0,0],"new":[{"id":7,"arrival_ms":3.0}]}
//
// Of each request there are id, prompt tokens, computed and generated tokens, blocks, and 1 if it was preempted. What
// is known of it besides comes with the first question about it. The answer is a place; "failed" ends the run: who
// answers knows why.
type Policies struct {
	ask          func(string) (string, error)
	name         func(id int32) string
	next, victim bool
	described    map[engine.RequestID]bool
	failure      error
	room         []byte
}

// NewPolicies begins the policies of all engines of a run. name says how messages call a request.
func NewPolicies(ask func(string) (string, error), name func(id int32) string) (*Policies, error) {
	if ask == nil {
		return nil, fmt.Errorf("scheduler_policy: %w", errPolicy)
	}
	answer, err := ask(`{"scheduler":"","why":"begin"}`)
	if err != nil {
		return nil, err
	}
	p := &Policies{ask: ask, described: map[engine.RequestID]bool{}, name: name}
	if strings.HasPrefix(answer, "failed") {
		return nil, fmt.Errorf("scheduler_policy: %w", errPolicy)
	}
	var wishes struct{ Next, Victim bool }
	if err := json.Unmarshal([]byte(answer), &wishes); err != nil {
		return nil, fmt.Errorf("scheduler_policy: got %q: %w", answer, err)
	}
	p.next, p.victim = wishes.Next, wishes.Victim
	return p, nil
}

// Err returns what a policy has failed with, nil for nothing.
func (p *Policies) Err() error {
	if p == nil {
		return nil
	}
	return p.failure
}

// About tells what routers learn of a request, and when it came to the deployment.
type About = func(engine.RequestID) (router.Request, float64)

// Of makes the policy of a worker.
func (p *Policies) Of(role engine.Role, worker int, about About) engine.Policy {
	stage := ""
	if role != engine.Aggregated {
		stage = role.String()
	}
	return &policy{Policies: p, stage: stage, worker: worker, about: about}
}

// Forget notes that a request has ended, after which another one may have its id.
func (p *Policies) Forget(id engine.RequestID) {
	if p != nil {
		delete(p.described, id)
	}
}

// policy is that of one worker.
type policy struct {
	*Policies
	stage  string
	worker int
	about  About
}

// Next implements [engine.Policy].
func (p *policy) Next(nowMs float64, waiting []engine.Candidate) int {
	if !p.next {
		return 0
	}
	return p.choose("next", nowMs, waiting, 0)
}

// Victim implements [engine.Policy].
func (p *policy) Victim(nowMs float64, running []engine.Candidate) int {
	last := len(running) - 1
	if !p.victim {
		return last
	}
	return p.choose("victim", nowMs, running, last)
}

// choose asks, and returns otherwise if there is no answer: the run ends soon.
func (p *policy) choose(why string, nowMs float64, among []engine.Candidate, otherwise int) int {
	if p.failure != nil {
		return otherwise
	}
	p.room = p.appendQuestion(p.room[:0], why, nowMs, among)
	answer, err := p.ask(string(p.room))
	place := otherwise
	if err == nil && strings.HasPrefix(answer, "failed") {
		err = errPolicy
	} else if err == nil {
		place, err = strconv.Atoi(answer)
	}
	if err == nil && (place < 0 || place >= len(among)) {
		err = fmt.Errorf("got place %d of %d", place, len(among))
	}
	if err != nil {
		what := map[string]string{"next": "to be admitted next", "victim": "to be preempted"}[why]
		p.failure = fmt.Errorf("scheduler_policy: at %v ms, worker %d, which of %d requests is %s, the first being %s: %w",
			nowMs, p.worker, len(among), what, p.name(int32(among[0].ID)), err)
		return otherwise
	}
	return place
}

func (p *policy) appendQuestion(dst []byte, why string, nowMs float64, among []engine.Candidate) []byte {
	dst = fmt.Appendf(dst, `{"scheduler":%q,"why":%q,"worker":%d,"now_ms":%s,"requests":[`, p.stage, why, p.worker,
		real(nowMs))
	for i, c := range among {
		if i > 0 {
			dst = append(dst, ',')
		}
		preempted := 0
		if c.Preempted {
			preempted = 1
		}
		for _, n := range [...]int{int(c.ID), c.PromptTokens, c.Computed, c.Generated, c.Blocks} {
			dst = append(strconv.AppendInt(dst, int64(n), 10), ',')
		}
		dst = strconv.AppendInt(dst, int64(preempted), 10)
	}
	dst = append(dst, ']')
	fresh := 0
	for _, c := range among {
		if p.described[c.ID] {
			continue
		}
		p.described[c.ID] = true
		if fresh++; fresh == 1 {
			dst = append(dst, `,"new":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = p.appendRequest(dst, c.ID)
	}
	if fresh > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendRequest appends what is known of a request besides its place in the engine.
func (p *policy) appendRequest(dst []byte, id engine.RequestID) []byte {
	r, arrivalMs := p.about(id)
	known := map[string]any{"id": id, "arrival_ms": arrivalMs, "priority": r.Priority,
		"strict_priority": r.StrictPriority, "session": r.Session, "tenant": r.Tenant}
	if r.DeadlineMs > 0 {
		known["deadline_ms"] = r.DeadlineMs
	}
	text, err := json.Marshal(known)
	if err != nil {
		p.failure = fmt.Errorf("scheduler_policy: %w", err)
		return append(dst, "{}"...)
	}
	return append(dst, text...)
}

// real returns a number of a question.
func real(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
