package traffic

import (
	"fmt"
	"slices"
)

// addAgents adds the requests of all sessions. With forks, some have sub-agents: a sub-agent starts when the request of
// the main agent before it is over, its requests follow each other, and the next request of the main agent waits for
// all sub-agents that were started before it.
func addAgents(c *collector, traces []wekaTrace, forks bool) error {
	known := map[string]bool{}
	before := 0 // rows in the files before
	for i := range traces {
		t := &traces[i]
		if i > 0 && t.file != traces[i-1].file {
			before = c.rows
		}
		name := t.sessionName(i)
		if known[name] {
			return fmt.Errorf("%s: id: got %q for two sessions, want a name that no other session has", c.file, name)
		}
		known[name] = true
		if !t.global {
			c.localIDs()
		}
		s := session{c: c, graph: forks, name: name, file: t.file, before: before}
		if err := s.run(t.steps); err != nil {
			return err
		}
	}
	return nil
}

// session adds the requests of one session.
type session struct {
	c     *collector
	graph bool
	name  string
	count int // requests so far

	file   int32
	before int // rows in the files before
}

// agent is where an agent has come to.
type agent struct {
	last    int32 // its last request, -1 if it has sent none
	startNs int64 // when that was sent
	endNs   int64 // and when its answer was complete, as far as is known

	joins     []int32 // last requests of sub-agents that it waits for
	joinEndNs int64   // when the last of these ended
}

// run adds what the main agent does.
func (s *session) run(steps []wekaStep) error {
	main := agent{last: -1}
	for i := range steps {
		step := &steps[i]
		if step.kind != subagent {
			if err := s.request(&main, step, step.startNs, s.name); err != nil {
				return err
			}
			continue
		}
		if err := s.fork(&main, step); err != nil {
			return err
		}
	}
	return nil
}

// fork adds a sub-agent. Some files count its times from its own beginning, others from that of the session.
func (s *session) fork(main *agent, step *wekaStep) error {
	base := int64(0)
	if len(step.steps) > 0 && step.steps[0].startNs < step.startNs {
		base = step.startNs
	}
	sub := agent{last: main.last, startNs: main.startNs, endNs: main.endNs}
	name := s.name + "/" + step.agent
	for i := range step.steps {
		inner := &step.steps[i]
		if i == 0 {
			inner.hasThink = false // from the beginning of the sub-agent: there was no request of its own before
		}
		if err := s.request(&sub, inner, base+inner.startNs, name); err != nil {
			return err
		}
	}
	if sub.last != main.last {
		main.joins = append(main.joins, sub.last)
		main.joinEndNs = max(main.joinEndNs, sub.endNs)
	}
	return nil
}

// request adds a request of an agent, which waits for the one before and for sub-agents.
func (s *session) request(a *agent, step *wekaStep, startNs int64, name string) error {
	if !step.answered {
		return s.c.leaveOut(failed)
	}
	ids, err := s.c.blocks(step.blockIDs)
	if err != nil {
		return err
	}
	r := Request{
		StartNs: startNs, File: s.file, Place: int32(s.c.rows - s.before + 1), Session: s.c.session(name), After: -1,
		Input: step.input, Output: step.output, BlockIDs: ids,
	}
	waits := slices.Clone(a.joins)
	if a.last >= 0 {
		waits = append([]int32{a.last}, waits...)
		r.DelayNs = a.delay(step, startNs)
	}
	if !s.graph {
		r.After = a.last
	}
	number := len(s.c.Requests)
	if err := s.c.add(r); err != nil {
		return err
	}
	if len(s.c.Requests) == number {
		return nil // left out: the next request follows the one before this
	}
	s.count++
	if s.graph {
		s.c.WaitFor = append(s.c.WaitFor, waits)
		s.c.IDs = append(s.c.IDs, fmt.Sprintf("%s/%d", s.name, s.count))
	}
	a.last, a.startNs, a.joins = int32(number), startNs, nil
	a.endNs = startNs + step.apiNs
	return nil
}

// delay returns the pause of the client before a request: the think time, but not more than the distance of this
// request from the one before, since it was measured from an earlier one where the end of that is not known. After
// sub-agents, and where the think time is not known, it is the time from the recorded end of what the request waits
// for.
func (a *agent) delay(step *wekaStep, startNs int64) int64 {
	ns := startNs - a.endNs
	switch {
	case len(a.joins) > 0:
		ns = startNs - max(a.endNs, a.joinEndNs)
	case step.hasThink:
		ns = min(step.thinkNs, startNs-a.startNs)
	}
	return max(0, ns)
}
