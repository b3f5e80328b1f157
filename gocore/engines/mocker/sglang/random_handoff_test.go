package sglang

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// TestRandomHandoffs moves random workloads from one prefill to one decode worker by a script of random delays, and
// checks the books of both after every step; then again without looking, and with a record of events.
func TestRandomHandoffs(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 200
	}
	rng := rand.New(rand.NewPCG(7, 11))
	rescued := 0
	for range runs {
		data := enginetest.RandomBytes(rng, 12, 60)
		rescues, err := checkHandoffs(data)
		if err != nil {
			args, w := workloadFrom(data)
			t.Fatalf("%v\nargs %+v\nworkload %+v\ndata %#v", err, args, w, data)
		}
		if rescues > 0 {
			rescued++
		}
	}
	if rescued < runs/200 {
		t.Errorf("only %d of %d runs needed a rescue", rescued, runs)
	}
}

// FuzzHandoffs looks for a workload that breaks one of the same rules.
func FuzzHandoffs(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 4, 0, 2, 0, 0, 0, 0, 5, 6, 1, 0, 0, 6, 4, 2, 0})             // retraction
	f.Add([]byte{0, 3, 0, 1, 0, 0, 0, 0, 3, 7, 1, 9, 0, 3, 7, 1, 9, 0, 3, 7, 1}) // leak
	f.Add([]byte{0, 11, 0, 1, 3, 0, 1, 0, 9, 13, 1, 0, 1, 19, 3, 2, 0})          // LPM
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := checkHandoffs(data); err != nil {
			t.Fatal(err)
		}
	})
}

func checkHandoffs(data []byte) (rescues int, err error) {
	args, w := workloadFrom(data)
	var want []engine.Pass
	for _, variant := range []string{"plain", "lazy", "recording"} {
		p := newPair(args, w, data, variant)
		if err := p.run(); err != nil {
			return 0, fmt.Errorf("%s: %w", variant, err)
		}
		if variant == "plain" {
			want, rescues = p.seen, p.rescues
		} else if !reflect.DeepEqual(p.seen, want) && (variant == "lazy" || p.evictedInVain == 0) {
			return 0, fmt.Errorf("%s: passes differ:\n got %+v\nwant %+v", variant, p.seen, want)
		}
	}
	return rescues, nil
}

// pair is a prefill and a decode worker that take turns. A script says for how many rounds the KV of a request is on
// its way.
type pair struct {
	workload workload
	requests []engine.Request
	source   *Scheduler
	target   *Scheduler
	plain    bool // look at every running request after every pass
	delays   []byte

	round    int
	nowMs    float64
	released int
	arrives  map[engine.RequestID]int // round in which the KV of a held request arrives
	notes    *enginetest.Recorder
	ledgers  map[*Scheduler]*ledger // of recording ones
	left     int
	seen     []engine.Pass
	rescues  int
	refused  map[engine.RequestID]bool
	// evictedInVain counts passes whose only effect is an event; not to see it is not to see the pass.
	evictedInVain int
}

func newPair(args engineargs.Args, w workload, delays []byte, variant string) *pair {
	w = w.sorted()
	p := &pair{
		workload: w,
		requests: w.requests(args.BlockSize),
		source:   New(args, setup(args, engine.Prefill)),
		target:   New(args, setup(args, engine.Decode)),
		plain:    variant == "plain",
		delays:   delays,
		arrives:  map[engine.RequestID]int{},
		notes:    enginetest.NewRecorder(len(w.arrivals)),
		ledgers:  map[*Scheduler]*ledger{},
		left:     len(w.arrivals),
		refused:  map[engine.RequestID]bool{},
	}
	if variant == "recording" {
		for _, s := range []*Scheduler{p.source, p.target} {
			s.Observe()
			p.ledgers[s] = &ledger{quirks: args.SGLang.ReferenceQuirks, stored: map[kvcache.BlockID]bool{}}
		}
	}
	return p
}

// run goes on until every request is over. A round without any effect makes time go to the next arrival or transfer,
// and when there is none, one of the workers must know a way out.
func (p *pair) run() error {
	for p.round = 0; p.left > 0; p.round++ {
		if p.round > 100_000 {
			return errors.New("no end in sight")
		}
		changed := false
		for _, step := range []func() (bool, error){p.arrive, p.prefill, p.decode, p.transfer} {
			did, err := step()
			if err == nil && p.plain {
				err = errors.Join(checkState(p.source), checkState(p.target))
			}
			if err != nil {
				return fmt.Errorf("round %d: %w", p.round, err)
			}
			changed = changed || did
		}
		switch {
		case changed || len(p.arrives) > 0:
		case p.released < len(p.requests):
			p.nowMs = max(p.nowMs, p.workload.arrivals[p.released].atMs)
		case p.reserve():
		case p.target.Unblock() || p.source.Unblock():
			p.rescues++
		default:
			return fmt.Errorf("round %d: dead end: %+v, %+v", p.round, p.source.States(), p.target.States())
		}
	}
	return p.checkEnd()
}

func (p *pair) arrive() (changed bool, err error) {
	for p.released < len(p.requests) && p.workload.arrivals[p.released].atMs <= p.nowMs {
		r := p.requests[p.released]
		p.released++
		changed = true
		if err := p.target.Reserve(r); err != nil {
			if r.PromptTokens+r.OutputTokens <= p.target.pool.Total() {
				return true, fmt.Errorf("request %d is refused: %w", r.ID, err)
			}
			p.refused[r.ID] = true
			p.left--
			continue
		}
		p.reserve()
	}
	return changed, nil
}

func (p *pair) reserve() bool {
	r, ok := p.target.TryReserve()
	if !ok {
		return false
	}
	prompt := p.requests[r.ID]
	prompt.OutputTokens, prompt.Hold = 1, true
	p.source.Add(prompt)
	return true
}

func (p *pair) prefill() (changed bool, err error) {
	pass, err := p.pass(p.source)
	if pass == nil {
		return false, err
	}
	for _, rejected := range pass.Rejected {
		p.target.CancelDestination(rejected.ID)
		p.refused[rejected.ID] = true
		p.left--
		p.reserve()
	}
	if !slices.Equal(pass.Held, pass.Finished) {
		return true, fmt.Errorf("%v are held, %v have finished", pass.Held, pass.Finished)
	}
	for _, id := range pass.Held {
		delay := 0
		if len(p.delays) > 0 {
			delay = int(p.delays[int(id)%len(p.delays)] % 8)
		}
		p.arrives[id] = p.round + delay
	}
	return true, err
}

func (p *pair) decode() (changed bool, err error) {
	pass, err := p.pass(p.target)
	if pass == nil {
		return false, err
	}
	if len(pass.Rejected) > 0 && p.target.pool.OverReturned() == 0 {
		return true, fmt.Errorf("the decode worker first accepts and then rejects %+v", pass.Rejected)
	}
	p.reserve()
	p.left -= len(pass.Finished) + len(pass.Rejected)
	return true, errors.Join(err, p.notes.See(pass))
}

// pass runs a pass, nil if that has no effect.
func (p *pair) pass(s *Scheduler) (*engine.Pass, error) {
	if s.Requests() == 0 {
		return nil, nil
	}
	pass, alive := s.RunPass(p.nowMs)
	if alive == pass.Idle() {
		return nil, fmt.Errorf("idle %t, alive %t", pass.Idle(), alive)
	}
	if p.plain {
		s.catchUpAll()
	}
	if !alive {
		return nil, nil
	}
	p.nowMs = pass.EndMs
	silent := *pass
	silent.KVEvents = nil
	if silent.Idle() {
		p.evictedInVain++
	}
	p.seen = append(p.seen, enginetest.CopyPass(pass))
	return pass, p.note(s, pass.KVEvents)
}

// transfer activates those whose KV has arrived, in order of their numbers.
func (p *pair) transfer() (changed bool, err error) {
	for id := range engine.RequestID(len(p.requests)) {
		if round, ok := p.arrives[id]; ok && round <= p.round {
			delete(p.arrives, id)
			p.target.Activate(id)
			if err := p.note(p.source, p.source.ReleaseSource(id)); err != nil {
				return true, err
			}
			p.reserve()
			changed = true
		}
	}
	return changed, nil
}

// checkEnd checks that nothing is left, and that every request has had its tokens.
func (p *pair) checkEnd() error {
	for _, s := range []*Scheduler{p.source, p.target} {
		if s.pool.Protected() != 0 || s.Requests() != 0 || len(s.States()) != 0 || s.load.requests != 0 ||
			s.load.pages != 0 || slices.ContainsFunc(s.load.phases, func(n int32) bool { return n != 0 }) {
			return fmt.Errorf("%v: at the end %d tokens are protected, the load is %+v, %+v left", s.role,
				s.pool.Protected(), s.load, s.States())
		}
		if l := p.ledgers[s]; l != nil {
			s.pool.ReturnLeaked()
			s.pool.Take(s.pool.Available())
			if err := p.note(s, s.pool.TakeEvents()); err != nil {
				return err
			}
			if len(l.stored) > 0 && s.pool.OverReturned() == 0 {
				return fmt.Errorf("%v: pages stay announced: %v", s.role, l.stored)
			}
		}
	}
	for id := range p.requests {
		switch o := &p.notes.Fates[id]; {
		case o.Over() == p.refused[engine.RequestID(id)]:
			return fmt.Errorf("request %d is over: %t, refused: %t", id, o.Over(), !o.Over())
		case o.Finished && len(o.TokenMs) != p.requests[id].OutputTokens:
			return fmt.Errorf("request %d got %d of %d tokens", id, len(o.TokenMs), p.requests[id].OutputTokens)
		case o.Finished && o.Reused[0] != 0 && p.rescues == 0:
			return fmt.Errorf("request %d reuses %d tokens when its KV arrives", id, o.Reused[0])
		}
	}
	return nil
}

// ledger is what a router knows of a worker.
type ledger struct {
	quirks bool
	stored map[kvcache.BlockID]bool
}

func (p *pair) note(s *Scheduler, events []kvcache.Event) error {
	l := p.ledgers[s]
	if l == nil {
		return nil
	}
	for _, e := range events {
		for id := range e.Blocks.All() {
			if e.Kind == kvcache.Stored {
				l.stored[id] = true
				continue
			}
			if !l.stored[id] && s.pool.OverReturned() == 0 {
				return fmt.Errorf("%v: page %d is removed, but not there", s.role, id)
			}
			delete(l.stored, id)
		}
	}
	return nil
}
