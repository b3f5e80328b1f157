package vllm

import "dynosim/gocore/engineargs"

// release is what the releases of vLLM do differently. A new one is a row here, with a field for each rule that it
// changes.
type release struct {
	// sparesLone lets the long_prefill_token_threshold off a request that is alone in the engine.
	sparesLone bool
	// passesNulls gives back all states of linear attention that a request no longer needs, not only those up to the
	// first null.
	passesNulls bool
	// stopsShort ends the last but one chunk of a prompt before its last token, where linear attention keeps a state
	// for later.
	stopsShort bool
	// sparesFlying lets a decode worker preempt no request that the pass in flight computes a token for.
	sparesFlying bool
}

var releases = map[engineargs.Release]release{
	engineargs.VLLM028: {},
	engineargs.VLLM033: {sparesLone: true, passesNulls: true, stopsShort: true, sparesFlying: true},
}

// threshold returns the most tokens that a request computes in the pass that is composed, 0 for no limit.
func (s *Scheduler) threshold() int {
	limit, requests := s.rules.LongPrefillTokenThreshold, s.Requests()
	switch {
	case limit == 0 || s.differs.sparesLone && requests <= 1:
		return 0
	case s.rules.AdaptiveThreshold:
		return max(limit, s.args.MaxNumBatchedTokens/requests)
	default:
		return limit
	}
}

// interval keeps passes that compute prompts apart while other requests decode (prefill_schedule_interval):
//
//	pass       1        2       3       4        5       6
//	interval 3 prompts  held    held    prompts  held    held
//
// A pass that is not held and leaves requests waiting ends this until one leaves none.
type interval struct {
	passes int // from one that computes prompts to the next; 1 is no interval
	steps  int // passes so far that served a token
	last   int // steps after the last pass that computed prompts
	behind bool
	held   bool // the pass that is composed
	// Data-parallel ranks count passes from the begin of a wave instead, so that all of them compute prompts together.
	inWaves bool
	number  int // of the next pass in its wave, from 0
}

// begin decides whether the next pass is held.
func (i *interval) begin(running []*sequence) {
	i.held = false
	if i.passes <= 1 || i.behind || i.due() {
		return
	}
	for _, r := range running {
		if !r.midPrompt {
			i.held = true
			return
		}
	}
}

// due reports whether the next pass may compute prompts in any case.
func (i *interval) due() bool {
	if i.inWaves {
		return i.number%i.passes == 0
	}
	return i.steps+1-i.last >= i.passes
}

// composed is what an interval depends on once a pass is composed: whether the pass serves tokens and computes
// prompts, whether it has preempted requests, and whether requests still wait.
type composed struct{ served, prompts, preempted, waiting bool }

// end notes what became of a pass.
func (i *interval) end(pass composed) {
	if !i.held && !pass.preempted {
		i.behind = pass.waiting
	}
	if pass.served {
		i.steps++
	}
	if pass.prompts {
		i.last = i.steps
	}
}
