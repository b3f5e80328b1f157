package paged

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/scripttest"
)

// TestScripts runs testdata/*.txt; see testdata/eviction.txt for how to read them. -rewrite writes the results anew.
func TestScripts(t *testing.T) {
	scripttest.RunOnly(t, "testdata", "pool",
		func(t *testing.T, d *datadriven.TestData) string { return newScript(t, d).run(t, d) })
}

type script struct {
	pool          *Pool
	prefixCaching bool
	requests      map[string]*scriptRequest
}

type scriptRequest struct {
	blocks   []kvcache.BlockID // what held is, or will be
	held     []Slot
	reserved Reservation
}

func newScript(t *testing.T, d *datadriven.TestData) *script {
	capacity, policy, caching, record := 8, "lineage", "on", true
	d.MaybeScanArgs(t, "capacity", &capacity)
	d.MaybeScanArgs(t, "policy", &policy)
	d.MaybeScanArgs(t, "caching", &caching)
	d.MaybeScanArgs(t, "record", &record)
	policies := map[string]Policy{"lineage": Lineage, "lru": LRU, "multilru": MultiLRU}
	if _, ok := policies[policy]; !ok {
		d.Fatalf(t, "unknown policy %s", policy)
	}
	s := &script{
		pool:          New(capacity, policies[policy], caching == "on"),
		prefixCaching: caching == "on",
		requests:      map[string]*scriptRequest{},
	}
	if record {
		s.pool.Record()
	}
	return s
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		what := s.step(t, d, strings.Fields(line))
		if err := s.pool.check(); err != nil {
			d.Fatalf(t, "after %q: %v", line, err)
		}
		occupancy := fmt.Sprintf("(%d,%d,%d)", s.pool.Free(), s.pool.Active(), s.pool.inactive)
		text := fmt.Sprintf("%-16s %s  %s", line, occupancy, strings.Join(append(what, s.takeEvents(t, d)...), "; "))
		out.WriteString(strings.TrimSpace(text) + "\n")
	}
	return out.String()
}

// step runs one line and returns what is to be said about it besides its events.
func (s *script) step(t *testing.T, d *datadriven.TestData, words []string) []string {
	if len(words) == 1 && words[0] == "drain" {
		words = []string{"use", "drain", strings.Repeat(".", s.pool.Available())}
	}
	if len(words) == 2 && words[0] == "lookup" {
		return s.lookup(words[1])
	}
	if len(words) < 2 {
		d.Fatalf(t, "cannot read %q", words)
	}
	r := s.requests[words[1]]
	if r == nil {
		r = &scriptRequest{}
		s.requests[words[1]] = r
	}
	ok := true
	switch command := words[0]; {
	case command == "use" && len(words) == 3:
		blocks := blocksAlong(words[2], s.prefixCaching)[len(r.held):]
		if r.held, ok = s.pool.Use(r.held, blocks); ok {
			r.blocks = append(r.blocks, blocks...)
		}
	case command == "partial":
		if r.held, ok = s.pool.UsePartial(r.held); ok {
			r.blocks = append(r.blocks, Partial)
		}
	case command == "promote" && len(words) == 3:
		blocks := blocksAlong(words[2], s.prefixCaching)
		last := len(r.held) - 1
		s.pool.Promote(r.held, blocks[last])
		r.blocks[last] = blocks[last]
	case command == "release":
		s.pool.Release(r.held)
		*r = scriptRequest{}
	case command == "reserve" && len(words) == 3:
		r.blocks = blocksAlong(words[2], s.prefixCaching)
		if r.reserved, ok = s.pool.Reserve(r.blocks, 0); ok {
			return []string{fmt.Sprintf("%d missing", r.reserved.Missing())}
		}
		*r = scriptRequest{}
	case command == "activate":
		r.held = s.pool.Activate(r.held, r.reserved, r.blocks)
	case command == "cancel":
		s.pool.Cancel(r.reserved)
		*r = scriptRequest{}
	case command == "undo":
		s.pool.putBack(r.held)
		*r = scriptRequest{}
	default:
		d.Fatalf(t, "cannot read %q", words)
	}
	for i, slot := range r.held {
		if got := s.pool.idAt(slot); got != r.blocks[i] {
			d.Fatalf(t, "after %q: held block %d is %s, want %s", words, i, pathOf(got), pathOf(r.blocks[i]))
		}
	}
	if !ok {
		return []string{"no capacity"}
	}
	return nil
}

func (s *script) lookup(path string) []string {
	blocks := blocksAlong(path, s.prefixCaching)
	found := s.pool.Lookup(blocks[len(blocks)-1])
	switch {
	case found.InUse:
		return []string{"active"}
	case found.Cached:
		return []string{"cached"}
	}
	return []string{"unknown"}
}

func (s *script) takeEvents(t *testing.T, d *datadriven.TestData) []string {
	var texts []string
	for _, e := range s.pool.TakeEvents() {
		if e.Free != s.pool.Free() || e.Active != s.pool.Active() || e.Inactive != s.pool.inactive {
			d.Fatalf(t, "event at (%d,%d,%d), which is not the occupancy after the step", e.Free, e.Active, e.Inactive)
		}
		switch {
		case e.Kind == kvcache.Removed:
			texts = append(texts, "removed "+pathsOf(slices.Collect(e.Blocks.All())))
		case e.HasParent:
			texts = append(texts, "stored "+pathsOf(slices.Collect(e.Blocks.All()))+" behind "+pathOf(e.Parent))
		default:
			texts = append(texts, "stored "+pathsOf(slices.Collect(e.Blocks.All())))
		}
	}
	return texts
}
