package traffic

import (
	"fmt"
	"math"

	"dynosim/gocore/workload/tracefile"
)

// wekaBlock is the number of tokens of a block if a file does not say.
const wekaBlock = 64

// wekaTrace is one session of a coding agent.
type wekaTrace struct {
	name      string
	blockSize int64
	global    bool // block ids mean the same in other sessions
	file      int32
	steps     []wekaStep
}

// wekaStep is a request of an agent, or the start of a sub-agent.
type wekaStep struct {
	kind          string // n, s or subagent
	startNs       int64  // from the beginning of the session, or of the sub-agent
	apiNs         int64  // from the start until the answer was complete, 0 if that is not known
	thinkNs       int64
	hasThink      bool
	input, output int32
	answered      bool
	blockIDs      []uint64
	steps         []wekaStep // of the sub-agent
	agent         string
}

// readWeka reads sessions of coding agents as kv-cache-tester publishes them: an object with block_size, hash_id_scope
// and requests for each, one or more in a file. All sessions begin at the same time.
//
// Without sub-agents a session is turns one after another. Otherwise all requests form a graph, see agents.go.
func readWeka(c *collector, sources []Source) error {
	c.Unit = "request"
	var traces []wekaTrace
	forks := false
	for file, source := range sources {
		err := eachRecord(c, source, func(d *tracefile.Document, _ func() int32) error {
			t, err := readWekaTrace(d)
			if err != nil {
				return err
			}
			if err := c.takeBlockSize(d, t.blockSize); err != nil {
				return err
			}
			for i := range t.steps {
				forks = forks || t.steps[i].kind == subagent
			}
			t.file = int32(file)
			traces = append(traces, t)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return addAgents(c, traces, forks)
}

// takeBlockSize takes the block size of a session: that of the one before, or the one asked for, if any.
func (c *collector) takeBlockSize(d *tracefile.Document, size int64) error {
	wanted := c.Trace.BlockSize
	if wanted == 0 {
		wanted = c.Options.BlockSize
	}
	if wanted != 0 && int64(wanted) != size {
		return d.Faultf("block_size: got %d, want %d as %s", size, wanted,
			map[bool]string{true: "the session before has", false: "trace_block_size says"}[c.Trace.BlockSize != 0])
	}
	c.Trace.BlockSize = int(size)
	return nil
}

func readWekaTrace(d *tracefile.Document) (wekaTrace, error) {
	t := wekaTrace{blockSize: wekaBlock}
	scope := "local"
	given, err := d.Object([]tracefile.Key{
		{Name: "id", Read: intoText(d, &t.name)},
		{Name: "block_size", Read: func() (err error) {
			if t.blockSize, err = d.Count(1 << 20); err == nil && t.blockSize == 0 {
				err = d.Faultf("got 0, want an integer from 1 to %d", 1<<20)
			}
			return err
		}},
		{Name: "hash_id_scope", Read: func() (err error) {
			if scope, err = d.Text(); err == nil && scope != "local" && scope != "global" {
				err = d.Faultf("got %q, want local or global", scope)
			}
			return err
		}},
		{Name: "requests", Read: func() (err error) { t.steps, err = readWekaSteps(d, true); return err }},
	})
	if err == nil && !has(given, 3) {
		err = d.Missing("requests", "the list of requests of a session")
	}
	t.global = scope == "global"
	return t, err
}

// subagent is the type of a step that is no request.
const subagent = "subagent"

// readWekaSteps reads the requests of an agent. Only the main agent has sub-agents.
func readWekaSteps(d *tracefile.Document, main bool) ([]wekaStep, error) {
	var steps []wekaStep
	err := d.Array(func(int) error {
		step, err := readWekaStep(d)
		switch {
		case err != nil:
			return err
		case step.kind == subagent && !main:
			return d.Faultf("type: got subagent inside a sub-agent, want n or s")
		case len(steps) == MaxRequests:
			return d.Faultf("more than %d requests, the limit", MaxRequests)
		}
		steps = append(steps, step)
		return nil
	})
	return steps, err
}

func readWekaStep(d *tracefile.Document) (wekaStep, error) {
	s := wekaStep{kind: "n"}
	duration := func(into *int64) func() error {
		return func() (err error) {
			if *into, err = d.Seconds(); err == nil && *into < 0 {
				err = d.Faultf("got a negative time, want seconds >= 0")
			}
			return err
		}
	}
	given, err := d.Object([]tracefile.Key{
		{Name: "t", Read: duration(&s.startNs)},
		{Name: "type", Read: func() (err error) {
			if s.kind, err = d.Text(); err == nil && s.kind != "n" && s.kind != "s" && s.kind != subagent {
				err = d.Faultf("got %q, want n, s or subagent", s.kind)
			}
			return err
		}},
		{Name: "in", Read: intoCount(d, &s.input, maxInput)},
		{Name: "out", Read: intoCount(d, &s.output, maxOutput)},
		{Name: "hash_ids", Read: func() (err error) {
			s.blockIDs, err = d.Counts(nil, math.MaxUint64, maxBlockIDs)
			return err
		}},
		{Name: "api_time", Read: duration(&s.apiNs)},
		{Name: "think_time", Read: duration(&s.thinkNs)},
		{Name: "agent_id", Read: intoText(d, &s.agent)},
		{Name: "requests", Read: func() (err error) { s.steps, err = readWekaSteps(d, false); return err }},
	})
	s.answered, s.hasThink = has(given, 3), has(given, 6)
	switch {
	case err != nil:
		return s, err
	case !has(given, 0):
		return s, d.Missing("t", "the time in seconds from the beginning of the session")
	case s.kind == subagent && !has(given, 8):
		return s, d.Missing("requests", "the requests of the sub-agent")
	case s.kind != subagent && !has(given, 2):
		return s, d.Missing("in", "the tokens of the prompt")
	}
	return s, nil
}

// sessionName returns the name of a session, made up if it has none.
func (t *wekaTrace) sessionName(number int) string {
	if t.name != "" {
		return t.name
	}
	return fmt.Sprintf("session_%d", number+1)
}
