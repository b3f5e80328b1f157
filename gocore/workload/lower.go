package workload

import (
	"cmp"
	"fmt"
	"slices"
)

// lowered is a recorded request in the form in which a replay sends it.
type lowered struct {
	call        *call
	timestampMs float64 // since the earliest request

	// The rest is for requests of agents.
	waitFor    []int32 // lowered requests, each once
	branches   []string
	place      int  // in its session
	reset      bool // the first there
	kind       string
	delayMs    float64 // after the last one it waits for is over, without tools
	toolWaitMs float64
	tools      []*toolCall
}

// lower says when the requests of a recording start in a replay. agentic tells whether they belong to sessions of
// agents, which wait for each other and for their tools; otherwise each starts at its own time.
//
//	parent   [ p1 ]                              [ p2 ]     p2 waits for p1 and c2
//	child       c1 waits for p1   [ c1 ] tool [ c2 ]        c2 waits for c1
//
// The first request of a session waits for that request of its parent session during which it must have been started,
// the latest that began before it: the spawn. The parent's first request after the child's last one waits for that: the
// join. What lies between the end of the last request waited for and the start is the time of tools, as far as tools of
// the session ran then, and else a delay.
func (rec *recording) lower(agentic bool) ([]lowered, error) {
	rows := make([]lowered, len(rec.requests))
	for i := range rows {
		rows[i] = lowered{call: &rec.requests[i],
			timestampMs: float64(rec.requests[i].startMs - rec.requests[0].startMs)}
	}
	if !agentic {
		return rows, nil
	}
	l := &lowerer{
		rec:      rec,
		rows:     rows,
		sessions: make(map[string][]int32),
		ended:    make(map[string][]*toolCall),
		consumed: make(map[string][]*toolCall),
	}
	l.chain()
	if err := l.link(); err != nil {
		return nil, err
	}
	l.time()
	return rows, nil
}

type lowerer struct {
	rec      *recording
	rows     []lowered
	sessions map[string][]int32 // requests in order
	names    []string           // of the sessions, in order of their first request

	ended    map[string][]*toolCall // by session, in order of their end
	consumed map[string][]*toolCall // by the request that is known to have used their output
}

// chain makes each request wait for the one before it in its session.
func (l *lowerer) chain() {
	for i := range l.rows {
		row := &l.rows[i]
		earlier := l.sessions[row.call.session]
		if row.reset = len(earlier) == 0; row.reset {
			l.names = append(l.names, row.call.session)
		} else {
			l.wait(int32(i), earlier[len(earlier)-1])
		}
		row.kind = "foreground"
		if l.rec.parents[row.call.session] != "" {
			row.kind = "agent"
		}
		row.place = len(earlier)
		l.sessions[row.call.session] = append(earlier, int32(i))
	}
}

// wait makes a request wait for another, once.
func (l *lowerer) wait(request, earlier int32) {
	if row := &l.rows[request]; !slices.Contains(row.waitFor, earlier) {
		row.waitFor = append(row.waitFor, earlier)
	}
}

// link ties sessions to those that started them.
func (l *lowerer) link() error {
	links, err := l.toolLinks()
	if err != nil {
		return err
	}
	for _, child := range l.names {
		parent := l.sessions[l.rec.parents[child]]
		known := links[child]
		if l.rec.parents[child] == child {
			return fmt.Errorf("agent_context: session %q is its own parent", child)
		}
		if len(parent) == 0 && known == nil {
			continue
		}
		l.spawn(child, parent, known)
		l.join(child, parent, known)
	}
	waitFor := make([][]int32, len(l.rows))
	ids := make([]string, len(l.rows))
	for i := range l.rows {
		waitFor[i], ids[i] = l.rows[i].waitFor, l.rows[i].call.id
	}
	if turns := circle(waitFor); turns != nil {
		return circleFault(ids, turns)
	}
	return nil
}

// sessionLink is what a tool call says about the session that it ran.
type sessionLink struct {
	source, consumer int32 // requests; consumer is -1 if not known
}

// toolLinks finds the sessions that tool calls name.
func (l *lowerer) toolLinks() (map[string]*sessionLink, error) {
	links := make(map[string]*sessionLink)
	var byID map[string]int32
	for i := range l.rec.tools {
		tool := &l.rec.tools[i]
		if tool.given&toolClaude == 0 || tool.link.child == "" || len(l.sessions[tool.link.child]) == 0 {
			continue
		}
		if byID == nil {
			byID = make(map[string]int32, len(l.rows))
			for i := range l.rows {
				byID[l.rows[i].call.id] = int32(i)
			}
		}
		if links[tool.link.child] != nil {
			return nil, fmt.Errorf("tool %q: claude: child_session_id: got %q, which another tool call has already",
				tool.id, tool.link.child)
		}
		link := &sessionLink{consumer: -1}
		var known bool
		if link.source, known = byID[tool.link.source]; !known {
			return nil, fmt.Errorf("tool %q: claude: source_request_id: got %q, which is no request's request_id",
				tool.id, tool.link.source)
		}
		if tool.link.consumer != "" {
			if link.consumer, known = byID[tool.link.consumer]; !known {
				return nil, fmt.Errorf("tool %q: claude: consumer_request_id: got %q, which is no request's request_id",
					tool.id, tool.link.consumer)
			}
		}
		links[tool.link.child] = link
		for _, request := range l.sessions[tool.link.child] {
			if tool.link.mode == linkBackground {
				l.rows[request].kind = "background_agent"
			} else {
				l.rows[request].kind = "agent"
			}
		}
	}
	return links, nil
}

// spawn makes the first request of a session wait for the one that started it.
func (l *lowerer) spawn(child string, parent []int32, known *sessionLink) {
	first := l.sessions[child][0]
	from := int32(-1)
	if known != nil {
		from = known.source
	} else {
		for _, request := range parent {
			if l.startedBy(request, first) {
				from = request
			}
		}
	}
	if from < 0 {
		return
	}
	l.wait(first, from)
	if row := &l.rows[from]; !slices.Contains(row.branches, child) {
		row.branches = append(row.branches, child)
	}
}

// startedBy reports whether a request of the parent may have started a session with the first request first. The
// requests are in order of their start, so that the last one counts. In older recordings the parent has to be over by
// then.
func (l *lowerer) startedBy(request, first int32) bool {
	if l.rec.older {
		return l.rows[request].call.endMs <= l.rows[first].call.startMs
	}
	return l.rows[request].call.startMs <= l.rows[first].call.startMs
}

// join makes a request of the parent wait for the last one of a session.
func (l *lowerer) join(child string, parent []int32, known *sessionLink) {
	last := slices.MaxFunc(l.sessions[child], func(a, b int32) int {
		x, y := l.rows[a].call, l.rows[b].call
		return cmp.Or(cmp.Compare(x.endMs, y.endMs), cmp.Compare(x.startMs, y.startMs), cmp.Compare(x.id, y.id))
	})
	if known != nil {
		if known.consumer >= 0 {
			l.wait(known.consumer, last)
		}
		return
	}
	for _, request := range parent {
		if l.rows[request].call.startMs >= l.rows[last].call.endMs {
			l.wait(request, last)
			return
		}
	}
}

// time splits what passed before each request into delay and tools.
func (l *lowerer) time() {
	l.sortTools()
	for i := range l.rows {
		row := &l.rows[i]
		if len(row.waitFor) == 0 {
			continue
		}
		dependencyEnd := uint64(0)
		for _, earlier := range row.waitFor {
			dependencyEnd = max(dependencyEnd, l.rows[earlier].call.endMs)
		}
		gap := 0.0
		if row.call.startMs > dependencyEnd {
			gap = float64(row.call.startMs - dependencyEnd)
		}
		since := dependencyEnd
		if !row.reset {
			since = l.rows[l.sessions[row.call.session][row.place-1]].call.startMs
		}
		row.tools = l.toolsBefore(row.call, since)
		row.toolWaitMs = min(gap, covered(row.tools, dependencyEnd, row.call.startMs))
		row.delayMs = gap - row.toolWaitMs
	}
}

func (l *lowerer) sortTools() {
	for i := range l.rec.tools {
		tool := &l.rec.tools[i]
		if consumer := tool.link.consumer; consumer != "" {
			l.consumed[consumer] = append(l.consumed[consumer], tool)
		} else {
			l.ended[tool.session] = append(l.ended[tool.session], tool)
		}
	}
	for _, tools := range l.ended {
		slices.SortStableFunc(tools, func(a, b *toolCall) int { return cmp.Compare(a.endMs, b.endMs) })
	}
}

// toolsBefore lists the tools whose output is part of a request's prompt, in order of their start: those of its session
// that ended between since and the request, and those known to be for it.
func (l *lowerer) toolsBefore(request *call, since uint64) []*toolCall {
	ended := l.ended[request.session]
	after := func(ms uint64) int {
		at, _ := slices.BinarySearchFunc(ended, ms, func(tool *toolCall, ms uint64) int {
			if tool.endMs <= ms {
				return -1
			}
			return 1
		})
		return at
	}
	from := after(since)
	tools := slices.Concat(ended[from:max(from, after(request.startMs))], l.consumed[request.id])
	slices.SortStableFunc(tools, func(a, b *toolCall) int { return cmp.Compare(a.startMs, b.startMs) })
	return tools
}

// covered returns how long at least one of the tools, which are in order of their start, ran between two times.
func covered(tools []*toolCall, fromMs, toMs uint64) float64 {
	total, reached := uint64(0), fromMs
	for _, tool := range tools {
		start, end := max(tool.startMs, reached), min(tool.endMs, toMs)
		if end > start {
			total += end - start
			reached = end
		}
	}
	return float64(total)
}

// context tells whether the requests belong to sessions: all or none of them must.
func (rec *recording) context(sources []Source) (bool, error) {
	with := slices.IndexFunc(rec.requests, func(c call) bool { return c.hasContext })
	without := slices.IndexFunc(rec.requests, func(c call) bool { return !c.hasContext })
	if with >= 0 && without >= 0 {
		at, other := rec.requests[without].at, rec.requests[with].at
		return false, lineFault(sources[at.source].Name, int(at.line),
			fmt.Errorf("agent_context: missing, want one in every request: %s line %d has one",
				sources[other.source].Name, other.line))
	}
	return with >= 0, nil
}

// checkBlockSize compares the size that the trace says with what was asked for.
func (rec *recording) checkBlockSize(asked int) error {
	if asked != 0 && asked != rec.blockSize {
		return fmt.Errorf("trace_block_size: got %d, want %d, which the trace says itself, or nothing", asked,
			rec.blockSize)
	}
	return nil
}
