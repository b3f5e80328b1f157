package policies

import (
	"slices"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

var pickerFields = []strictjson.Field{
	number("prefix_weight", notNegative, 3,
		"Weight of the part of the prompt's blocks that a worker has, from 0 to 1."),
	number("queue_weight", notNegative, 2, "Weight of how short its queue is: 1 for the shortest, 0 for the longest. "+
		"The queue is the requests whose prompts are not computed yet."),
	number("kv_weight", notNegative, 2, "Weight of the part of its KV cache that is not in use."),
	number("running_weight", notNegative, 0, "Weight of how few requests it runs, scaled as the queue is."),
	number("token_load_weight", notNegative, 0,
		"Weight of 1 less the prompt tokens in flight there, as a part of token_load_limit."),
	number("session_weight", notNegative, 0, "Weight of being the worker of the session's last request."),
	{Name: "token_load_limit", Type: strictjson.Integer{Min: 1}, Default: 4194304, NotNull: true,
		Doc: "Prompt tokens in flight at which a worker's token load counts as full."},
	choice("prefix_from", []string{"sent", "events"},
		"How it knows what a worker has: by what was sent there, or by the worker's cache events."),
	integer("prefix_lru_blocks", 0, 0, "With prefix_from sent, blocks of each worker that it remembers; 0 for as "+
		"many as the worker has room for."),
	choice("picker", []string{"max_score", "weighted_random", "random"},
		"Who gets the request: the highest score, ties being drawn; anyone, with scores as chances; anyone."),
	choice("saturation", []string{"off", "shed", "hold"},
		"What happens while every worker is saturated: nothing; requests with a priority below 0 are rejected; these "+
			"are, and others wait, the highest priority first."),
	integer("queue_depth_threshold", 1, 5, "A worker is saturated with so many requests in its queue."),
	number("kv_util_threshold", fraction, 0.8, "It is with that part of its KV cache in use."),
}

// endpointPicker decides as the endpoint picker of llm-d and of the Gateway API inference extension is documented to.
type endpointPicker struct {
	weights            [scorers]float64
	sessions           map[string]int // the worker of a session's last request
	sent               *sentIndex     // nil if cache events tell
	blockSize, room    int
	tokenLimit         float64
	picker, saturation string
	queueDepth         int64
	kvUtil             float64
	pollMs             float64
	draw               chance
	workers            []int // by place
	polled             gauges
	waiting            []picked           // kept, in the order in which they go
	running            map[int32]underWay // by request
	tokens             []int64            // of prompts in flight, by worker
	matched            []int              // scratch: blocks, by worker
	scores             []float64          // scratch, by place
	ties               []int              // scratch
}

// scorers counts what a score is made of.
const (
	prefixScore = iota
	queueScore
	kvScore
	runningScore
	tokenLoadScore
	sessionScore
	scorers
)

// gauges are what workers report, by place.
type gauges struct {
	queued, requests, blocks []int64
	there                    bool
}

func (g *gauges) read(q *router.Question) {
	g.queued = append(g.queued[:0], q.Queued...)
	g.requests = append(g.requests[:0], q.Requests...)
	g.blocks = append(g.blocks[:0], q.ActiveBlocks...)
	g.there = true
}

// picked is a request, and with cache events how many of its leading blocks workers had when it came.
type picked struct {
	request router.Request
	cached  []int // by worker; nil if cache events do not tell
}

// underWay is where a request went, and the tokens of its prompt.
type underWay struct{ worker, tokens int32 }

func newEndpointPicker(o router.Options) router.Router {
	n := o.Settings.Int("router_replicas")
	replicas, all := make([]*router.Asked, n), make([]router.Elastic, n)
	for i := range n {
		o.Decider = newDecider(o)
		replicas[i] = router.NewAsked(o)
		all[i] = replicas[i]
	}
	if n == 1 {
		return replicas[0]
	}
	if o.Settings.Given("metrics_interval_ms") {
		router.ShareReports(replicas)
	}
	return router.NewReplicas(all...)
}

func newDecider(o router.Options) *endpointPicker {
	s := o.Settings
	p := &endpointPicker{
		blockSize: o.BlockSize, room: max(1, o.Blocks), tokenLimit: float64(s.Int("token_load_limit")),
		picker: s.Text("picker"), saturation: s.Text("saturation"), queueDepth: int64(s.Int("queue_depth_threshold")),
		kvUtil: s.Float("kv_util_threshold"),
		pollMs: s.Float("metrics_interval_ms"), draw: o.Rand, sessions: map[string]int{}, running: map[int32]underWay{},
	}
	for i, name := range [scorers]string{"prefix_weight", "queue_weight", "kv_weight", "running_weight",
		"token_load_weight", "session_weight"} {
		p.weights[i] = s.Float(name)
	}
	if s.Text("prefix_from") == "sent" {
		capacity := s.Int("prefix_lru_blocks")
		if capacity == 0 {
			capacity = p.room
		}
		p.sent = newSentIndex(capacity)
	}
	return p
}

// Begin implements [router.Decider].
func (p *endpointPicker) Begin(router.Pool) (router.Wishes, error) {
	return router.Wishes{TickMs: p.pollMs}, nil
}

// Decide implements [router.Decider].
func (p *endpointPicker) Decide(q *router.Question) (router.Verdict, error) {
	p.hear(q)
	if q.New != nil {
		p.keep(q)
	}
	if len(p.waiting) == 0 || len(p.workers) == 0 || q.Why == router.Ended {
		return router.Verdict{}, nil
	}
	next := p.waiting[0]
	if p.saturated() {
		if i := slices.IndexFunc(p.waiting, func(w picked) bool { return w.request.Priority < 0 }); i >= 0 &&
			q.Stage != "decode" && p.saturation != "off" {
			shed := p.waiting[i]
			p.waiting = slices.Delete(p.waiting, i, i+1)
			return router.Verdict{Decided: true, ID: shed.request.ID, Place: router.Refused, More: len(p.waiting) > 0},
				nil
		}
		if p.saturation == "hold" {
			return router.Verdict{}, nil
		}
	}
	p.waiting = slices.Delete(p.waiting, 0, 1)
	place := p.pick(&next)
	p.carry(&next, place)
	return router.Verdict{Decided: true, ID: next.request.ID, Place: place, More: len(p.waiting) > 0}, nil
}

// hear brings what it knows of the workers up to date.
func (p *endpointPicker) hear(q *router.Question) {
	if q.Workers != nil {
		p.adopt(q.Workers)
	}
	for _, left := range q.Left {
		if r, known := p.running[left.ID]; known {
			delete(p.running, left.ID)
			p.tokens[r.worker] -= int64(r.tokens)
		}
	}
	for _, id := range q.Withdrawn {
		p.waiting = slices.DeleteFunc(p.waiting, func(w picked) bool { return w.request.ID == id })
	}
	if p.pollMs == 0 { // they are looked at during this call only
		p.polled = gauges{q.Queued, q.Requests, q.ActiveBlocks, true}
		return
	}
	if q.Why == router.Ticked || !p.polled.there || len(p.polled.requests) != len(p.workers) {
		p.polled.read(q)
	}
}

// adopt takes over the workers that get requests from now on, and forgets what those had that do not any more.
func (p *endpointPicker) adopt(workers []int) {
	if p.sent != nil {
		for _, w := range p.workers {
			if !slices.Contains(workers, w) {
				p.sent.forget(w)
			}
		}
	}
	p.workers, p.polled.there = append(p.workers[:0], workers...), false
	if n := len(workers); n > 0 {
		for len(p.tokens) <= workers[n-1] {
			p.tokens, p.matched = append(p.tokens, 0), append(p.matched, 0)
		}
		if p.sent != nil {
			p.sent.growTo(len(p.tokens))
		}
	}
}

// keep enters the new request behind those that go first: of higher priority, or as high and earlier.
func (p *endpointPicker) keep(q *router.Question) {
	r := picked{request: *q.New}
	if p.sent == nil {
		r.cached = make([]int, len(p.tokens))
		for _, c := range q.Cached {
			r.cached[p.workers[c.Place]] = c.Blocks
		}
	}
	place := len(p.waiting)
	for p.saturation == "hold" && place > 0 && p.waiting[place-1].request.Priority < r.request.Priority {
		place--
	}
	p.waiting = slices.Insert(p.waiting, place, r)
}

// saturated reports whether every worker is, by what they reported last.
func (p *endpointPicker) saturated() bool {
	if p.saturation == "off" {
		return false
	}
	for i := range p.workers {
		if p.polled.queued[i] < p.queueDepth && p.used(i) < p.kvUtil {
			return false
		}
	}
	return true
}

func (p *endpointPicker) used(place int) float64 {
	return min(1, float64(p.polled.blocks[place])/float64(p.room))
}

// pick returns the place of the worker that gets a request.
func (p *endpointPicker) pick(r *picked) int {
	if p.picker == "random" {
		return p.draw.IntN(len(p.workers))
	}
	p.score(r)
	if p.picker == "weighted_random" {
		return p.drawWeighted()
	}
	best := slices.Max(p.scores)
	p.ties = p.ties[:0]
	for i, score := range p.scores {
		if score == best {
			p.ties = append(p.ties, i)
		}
	}
	if len(p.ties) == 1 {
		return p.ties[0]
	}
	return p.ties[p.draw.IntN(len(p.ties))]
}

// score gives each place the weighted sum of what it scores.
func (p *endpointPicker) score(r *picked) {
	blocks := r.request.PromptTokens / p.blockSize
	matched := r.cached
	if p.sent != nil {
		matched = p.matched
		clear(matched)
		if p.weights[prefixScore] > 0 {
			p.sent.match(r.request.Prompt, min(blocks, len(r.request.Prompt.Segments)*r.request.Prompt.PerSegment),
				matched)
		}
	}
	home, known := p.sessions[r.request.Session]
	queue, w := scale(p.polled.queued, nil), &p.weights
	p.scores = p.scores[:0]
	for i, worker := range p.workers {
		score := float64(w[queueScore]*queue.of(p.polled.queued[i])) + float64(w[kvScore]*(1-p.used(i)))
		if blocks > 0 && worker < len(matched) && matched[worker] > 0 {
			score += float64(w[prefixScore] * (float64(matched[worker]) / float64(blocks)))
		}
		p.scores = append(p.scores, score)
	}
	if w[runningScore] > 0 || w[tokenLoadScore] > 0 {
		p.scoreLoad()
	}
	if place := slices.Index(p.workers, home); known && place >= 0 {
		p.scores[place] += w[sessionScore]
	}
}

// scoreLoad adds what the requests that run and the tokens in flight score.
func (p *endpointPicker) scoreLoad() {
	running, w := scale(p.polled.requests, p.polled.queued), &p.weights
	for i, worker := range p.workers {
		p.scores[i] += float64(w[runningScore] * running.of(p.polled.requests[i]-p.polled.queued[i]))
		p.scores[i] += float64(w[tokenLoadScore] * (1 - min(1, float64(p.tokens[worker])/p.tokenLimit)))
	}
}

// scaling brings counts to 0 for the largest to 1 for the smallest.
type scaling struct{ low, high int64 }

// scale finds the bounds of counts, less others if there are any.
func scale(counts, less []int64) scaling {
	at := func(i int) int64 {
		if less == nil {
			return counts[i]
		}
		return counts[i] - less[i]
	}
	s := scaling{at(0), at(0)}
	for i := range counts {
		s.low, s.high = min(s.low, at(i)), max(s.high, at(i))
	}
	return s
}

func (s scaling) of(count int64) float64 {
	if s.high == s.low {
		return 1
	}
	return float64(s.high-count) / float64(s.high-s.low)
}

// precision is what the sum of weights is cut into when a worker is drawn.
const precision = 1 << 30

// drawWeighted draws a place with scores as chances; if all are 0, all are as probable.
func (p *endpointPicker) drawWeighted() int {
	sum := 0.0
	for _, score := range p.scores {
		sum += score
	}
	if sum == 0 {
		return p.draw.IntN(len(p.workers))
	}
	at := float64(float64(p.draw.IntN(precision))/precision) * sum
	for i, score := range p.scores {
		if at -= score; at < 0 {
			return i
		}
	}
	return len(p.scores) - 1
}

// carry notes that a request goes to a place.
func (p *endpointPicker) carry(r *picked, place int) {
	worker := p.workers[place]
	p.tokens[worker] += int64(r.request.PromptTokens)
	p.running[r.request.ID] = underWay{worker: int32(worker), tokens: int32(r.request.PromptTokens)}
	if r.request.Session != "" && p.weights[sessionScore] > 0 {
		p.sessions[r.request.Session] = worker
	}
	if p.sent != nil && p.weights[prefixScore] > 0 {
		prompt := r.request.Prompt
		p.sent.enter(prompt, min(r.request.PromptTokens/p.blockSize, len(prompt.Segments)*prompt.PerSegment), worker)
	}
}
