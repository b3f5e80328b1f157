package radix

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestHostTier lets requests do what a scheduler makes them do, in any order and with any policy, while copies end at
// their time, and adds up all pages after every step.
func TestHostTier(t *testing.T) {
	var total HostUse
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		pageSize, pages := 1+rng.IntN(4), 15+rng.IntN(50)
		s := &hostScript{leaseScript: leaseScript{rng: rng, pageSize: pageSize,
			pool: NewLeases(pages*pageSize, pageSize)}}
		s.pool.AddHost(HostTier{
			Pages: 1 + rng.IntN(2*pages), Policy: WritePolicy(rng.IntN(3)), LoadFrom: rng.IntN(3 * pageSize),
			StoreMs: float64(rng.IntN(3)), LoadMs: float64(rng.IntN(3)), LatencyMs: float64(rng.IntN(2)),
		})
		for step := range 300 {
			what := s.step()
			if err := s.check(); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed, step, what, err)
			}
		}
		for len(s.requests) > 0 {
			s.close(0)
		}
		s.pool.SubmitLoads()
		s.pool.Tell(1e9)
		s.pool.Notice() // submits
		s.pool.Tell(2e9)
		s.pool.Notice()
		if err := s.check(); err != nil || s.pool.Copying() || s.pool.Available() != s.pool.Total() {
			t.Fatalf("seed %d: at the end %d of %d slots are available: %v", seed, s.pool.Available(), s.pool.Total(),
				err)
		}
		use := s.pool.HostUse()
		total.Stored += use.Stored
		total.Loaded += use.Loaded
		total.Evicted += use.Evicted
		total.HeldMs += use.HeldMs
	}
	if total.Stored < 3000 || total.Loaded < 300 || total.Evicted < 300 || total.HeldMs == 0 {
		t.Errorf("hardly anything happened: %+v", total)
	}
}

// hostScript is a leaseScript whose pool has a host tier; there is no model of it.
type hostScript struct {
	leaseScript
}

func (s *hostScript) step() string {
	p := s.pool
	if len(s.requests) == 0 || len(s.requests) < 6 && s.rng.IntN(4) == 0 {
		key, prompt := s.newKey()
		r := &leaseRequest{lease: Lease{Key: key}, prompt: prompt, tokens: prompt + s.rng.IntN(4*s.pageSize)}
		r.has = p.Open(&r.lease, prompt-1)
		if p.Load(&r.lease) {
			r.has = p.Cached(&r.lease)
		}
		s.requests = append(s.requests, r)
		return "opening"
	}
	i := s.rng.IntN(len(s.requests))
	r := s.requests[i]
	switch choice := s.rng.IntN(14); {
	case choice == 0:
		s.close(i)
		return "retraction"
	case choice == 1:
		key, tokens := s.newKey()
		p.Refresh(&key, tokens)
		return "look-up"
	case choice == 2:
		p.MakeRoom(s.rng.IntN(p.Total() + 1))
		return "making room"
	case choice < 6:
		p.SubmitLoads()
		p.Tell(p.Clock() + float64(s.rng.IntN(10)))
		p.Notice()
		return "a round"
	case r.has < r.tokens:
		to := min(r.tokens, r.has+1+s.rng.IntN(4*s.pageSize))
		if r.has < r.prompt {
			to = min(to, r.prompt)
		}
		if more := (to+s.pageSize-1)/s.pageSize*s.pageSize - r.lease.slots; p.MakeRoom(max(0, more)) {
			p.Grow(&r.lease, to)
			r.has = to
			if to <= r.prompt {
				p.Share(&r.lease, to, r.prompt)
			}
		}
		return "growing"
	}
	p.Share(&r.lease, r.has, r.prompt)
	s.close(i)
	return "end"
}

func (s *hostScript) close(i int) {
	s.pool.Close(&s.requests[i].lease)
	s.requests = append(s.requests[:i], s.requests[i+1:]...)
}

// check counts all pages anew: on the device, on the host, and those that moved.
func (s *hostScript) check() error {
	p, h := s.pool, s.pool.host
	device, locked, backed := 0, 0, 0
	children, cold := map[ref]int32{}, map[ref]int32{}
	for i := 1; i < len(p.nodes); i++ {
		n := &p.nodes[i]
		if n.id == noPage {
			continue
		}
		switch {
		case n.cold && !n.backed:
			return fmt.Errorf("node %d is nowhere", i)
		case !n.cold && n.parent != root && p.nodes[n.parent].cold:
			return fmt.Errorf("node %d is on the device below one that is not", i)
		case n.cold:
			cold[n.parent]++
		default:
			children[n.parent]++
			device += int(n.pages)
			if n.locks > 0 {
				locked += int(n.pages)
			}
		}
		if n.backed {
			backed += int(n.pages)
		}
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; (i == 0 || n.id != noPage) &&
			(n.children != children[ref(i)] || n.coldKids != cold[ref(i)]) {
			return fmt.Errorf("node %d has %d and %d children, counted %d and %d", i, n.children, n.coldKids,
				children[ref(i)], cold[ref(i)])
		}
	}
	own := 0
	for _, r := range s.requests {
		own += r.lease.slots - r.lease.cached
	}
	if p.protected != locked*s.pageSize || p.evictable != (device-locked)*s.pageSize {
		return fmt.Errorf("%d protected and %d evictable, counted %d and %d pages", p.protected, p.evictable, locked,
			device-locked)
	}
	if sum := p.free + p.evictable + p.protected + own; sum != p.total {
		return fmt.Errorf("%d slots of %d are accounted for", sum, p.total)
	}
	if h.free < 0 || h.free+backed != h.Pages {
		return fmt.Errorf("%d of %d pages of the host are free, and %d used", h.free, h.Pages, backed)
	}
	queued := 0
	for _, m := range h.storing {
		queued += m.pages
	}
	if use := p.HostUse(); use.Stored+queued != use.Evicted+use.Resident {
		return fmt.Errorf("%d pages were stored and %d are to be; %d were evicted, %d are there", use.Stored, queued,
			use.Evicted, use.Resident)
	}
	return nil
}
