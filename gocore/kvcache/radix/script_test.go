package radix

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/scripttest"
)

// TestScripts runs testdata/*.txt; see testdata/tree.txt for how to read them. -rewrite writes the results anew.
func TestScripts(t *testing.T) {
	s := &script{}
	scripttest.Run(t, "testdata", s.run)
}

// script is a pool and the requests that use it, by name.
type script struct {
	pool     *Pool
	holdings map[string]*Holding
	names    map[kvcache.BlockID]string // of requests, by the first of their private ids
	now      Time
}

const privateSpan = 1000

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "new" {
		var slots, page int
		d.ScanArgs(t, "slots", &slots)
		d.ScanArgs(t, "page", &page)
		*s = script{
			pool:     New(slots, page, !d.HasArg("strict")),
			holdings: map[string]*Holding{}, names: map[kvcache.BlockID]string{},
		}
		if d.HasArg("events") {
			s.pool.Record()
		}
		return ""
	}
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		s.now++
		if said := s.do(t, d, strings.Fields(line)); said != "" {
			fmt.Fprintf(&out, "%s: %s\n", strings.TrimSpace(line), said)
		}
		if err := s.pool.check(slices.Collect(maps.Values(s.holdings))); err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		for _, e := range s.pool.TakeEvents() {
			out.WriteString("  " + s.event(e) + "\n")
		}
	}
	s.print(&out)
	return out.String()
}

// do carries out one line: "A prefill 5" and so on.
func (s *script) do(t *testing.T, d *datadriven.TestData, words []string) string {
	number := func(i int) int {
		n, err := strconv.Atoi(words[i])
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return n
	}
	h := s.holdings[words[0]]
	switch words[1] {
	case "is": // A is 1 2 3: a request whose prompt has these pages as a whole
		h = &Holding{Key: kvcache.Key{Prompt: kvcache.Prompt{PerSegment: 1}}}
		for i := range words[2:] {
			h.Key.Prompt.Segments = append(h.Key.Prompt.Segments, uint32(number(2+i)))
		}
		h.Key.Shareable = len(words) - 2
		h.Key.Private = kvcache.PrivateIDs + kvcache.BlockID(len(s.names)*privateSpan)
		s.names[h.Key.Private] = words[0]
		s.holdings[words[0]] = h
		return ""
	case "prefill":
		return fmt.Sprintf("reused %d", s.pool.Prefill(h, number(2), s.now))
	case "find":
		return fmt.Sprint(s.pool.CachedTokens(&h.Key, number(2)))
	case "cache":
		s.pool.Cache(h, s.now)
	case "first":
		s.take(t, d, 1)
		s.pool.DecodeOne(h, s.now)
	case "decode":
		s.take(t, d, number(2))
		s.pool.Decode(h, number(2), s.now)
	case "last":
		s.take(t, d, 1)
		s.pool.LastDecode(h)
	case "finish":
		s.take(t, d, 1)
		s.pool.LastDecode(h)
		s.pool.Finish(h, s.now)
	case "leave": // finish, after the last token
		s.pool.Finish(h, s.now)
	case "reserve":
		taken, ok := s.pool.Reserve(h, number(2), s.now)
		if !ok {
			return "refused"
		}
		return fmt.Sprintf("took %d", taken)
	case "activate":
		return fmt.Sprintf("surplus %d", s.pool.Activate(h, number(2), s.now))
	case "retract":
		s.pool.Retract(h)
	case "release":
		s.pool.Release(h)
	case "take": // "pool take 3": as if for requests that are not shown, then given back
		if !s.pool.Take(number(2)) {
			return "refused"
		}
		s.pool.free += number(2)
	case "recover": // "pool recover"
		returned := s.pool.ReturnLeaked()
		for _, name := range slices.Sorted(maps.Keys(s.holdings)) {
			returned += s.pool.ReturnDuplicates(s.holdings[name])
		}
		return fmt.Sprintf("%d slots", returned)
	default:
		d.Fatalf(t, "unknown operation %s", words[1])
	}
	return ""
}

func (s *script) take(t *testing.T, d *datadriven.TestData, slots int) {
	if !s.pool.Take(slots) {
		d.Fatalf(t, "no slots left")
	}
}

func (s *script) page(id kvcache.BlockID) string {
	if id < kvcache.PrivateIDs {
		return fmt.Sprint(id)
	}
	base := id - (id-kvcache.PrivateIDs)%privateSpan
	return fmt.Sprintf("%s%d", s.names[base], id-base)
}

func (s *script) event(e kvcache.Event) string {
	text := "removed"
	if e.Kind == kvcache.Stored {
		text = "stored"
	}
	for id := range e.Blocks.All() {
		text += " " + s.page(id)
	}
	if e.HasParent {
		text += " after " + s.page(e.Parent)
	}
	return text
}

// print shows the accounts and the tree: a node a line, with the requests that hold it.
func (s *script) print(out *strings.Builder) {
	p := s.pool
	fmt.Fprintf(out, "free %d, evictable %d, protected %d", p.free, p.evictable, p.protected)
	for _, name := range slices.Sorted(maps.Keys(s.holdings)) {
		if h := s.holdings[name]; h.Own() > 0 {
			fmt.Fprintf(out, ", %s's own %d", name, h.Own())
			if h.duplicates > 0 {
				fmt.Fprintf(out, " (%d duplicates)", h.duplicates)
			}
		}
	}
	if p.leaked > 0 {
		fmt.Fprintf(out, ", leaked %d", p.leaked)
	}
	if p.overReturned > 0 {
		fmt.Fprintf(out, ", over-returned %d", p.overReturned)
	}
	out.WriteString("\n")
	s.printChildren(out, root, "  ")
}

func (s *script) printChildren(out *strings.Builder, parent ref, indent string) {
	var children []ref
	for _, at := range s.pool.byPage {
		if s.pool.nodes[at].parent == parent {
			children = append(children, at)
		}
	}
	slices.SortFunc(children, func(a, b ref) int { return int(s.pool.nodes[a].id) - int(s.pool.nodes[b].id) })
	for _, at := range children {
		n := &s.pool.nodes[at]
		separator := " "
		if n.chain {
			separator = "|"
		}
		var pages []string
		for i := n.first; i < n.end(); i++ {
			pages = append(pages, s.page(n.key.Block(int(i))))
		}
		fmt.Fprintf(out, "%s[%s]", indent, strings.Join(pages, separator))
		for _, name := range slices.Sorted(maps.Keys(s.holdings)) {
			if s.holdings[name].node == at {
				out.WriteString(" " + name)
			}
		}
		out.WriteString("\n")
		s.printChildren(out, at, indent+"  ")
	}
}
