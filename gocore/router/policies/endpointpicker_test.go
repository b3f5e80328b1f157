package policies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// newPicker makes an endpoint picker in front of workers with room for 100 blocks of 16 tokens.
func newPicker(t testing.TB, settings string, workers int) *router.Asked {
	t.Helper()
	m, _ := router.FindMode("endpoint_picker")
	o, err := m.ParseSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	return m.New(router.Options{Workers: workers, BlockSize: 16, Blocks: 100, Settings: o,
		Rand: rand.New(rand.NewPCG(3, 4))}).(*router.Asked)
}

// blocksFrom returns a prompt of n blocks, of which the first ones are a prefix that other prompts with the same name
// have.
func blocksFrom(first uint32, n int) router.Request {
	r := router.Request{PromptTokens: 16 * n, Prompt: kvcache.Prompt{PerSegment: 1}}
	for i := range uint32(n) {
		r.Prompt.Segments = append(r.Prompt.Segments, first+i)
	}
	return r
}

// sendTo submits a request and returns where requests went then, as "id:worker".
func sendTo(t testing.TB, p router.Router, id int32, r router.Request, atMs float64) string {
	t.Helper()
	r.ID = id
	return went(t)(p.Submit(r, atMs))
}

func went(t testing.TB) func([]router.Admission, error) string {
	return func(admitted []router.Admission, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, a := range admitted {
			texts = append(texts, fmt.Sprintf("%d:%d", a.ID, a.Worker))
		}
		return strings.Join(texts, " ")
	}
}

// scored makes a picker that sees reports, and returns the scores of a request.
func scored(t *testing.T, settings string, polled gauges, matched []int, r router.Request) []float64 {
	t.Helper()
	m, _ := router.FindMode("endpoint_picker")
	o, err := m.ParseSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	decider := newDecider(router.Options{Workers: len(matched), BlockSize: 16, Blocks: 100, Settings: o})
	decider.adopt([]int{0, 1})
	decider.polled = polled
	for w, n := range matched {
		decider.sent.enter(r.Prompt, n, w)
	}
	decider.score(&picked{request: r})
	return decider.scores
}

// TestPickerScores: the example of the documentation, A with three of four blocks, a queue of 4 and half of its cache
// in use, and B with none of it; then each scorer by itself.
func TestPickerScores(t *testing.T) {
	polled := gauges{queued: []int64{4, 0}, requests: []int64{7, 6}, blocks: []int64{50, 10}, there: true}
	alone := func(weight string) string {
		return `{"prefix_weight":0,"queue_weight":0,"kv_weight":0,` + weight + `}`
	}
	for settings, want := range map[string][2]float64{
		`{}`:                           {3.25, 3.8},
		alone(`"running_weight":2`):    {2, 0}, // 3 and 6 run
		alone(`"token_load_weight":5`): {5, 5},
		alone(`"session_weight":1`):    {0, 0},
	} {
		got := scored(t, settings, polled, []int{3, 0}, blocksFrom(1, 4))
		if fmt.Sprintf("%.9f", got) != fmt.Sprintf("%.9f", want[:]) {
			t.Errorf("%s: got %v, want %v", settings, got, want)
		}
	}
}

// TestPickerPrefix: requests go where their prefix was sent until the queue there is too long; what was sent least
// recently is forgotten.
func TestPickerPrefix(t *testing.T) {
	p := newPicker(t, `{"queue_weight":0,"kv_weight":0,"prefix_lru_blocks":6}`, 4)
	home := sendTo(t, p, 0, blocksFrom(10, 4), 0)
	for id := range int32(5) {
		if got := sendTo(t, p, id+1, blocksFrom(10, 4), 0); got[2:] != home[2:] {
			t.Errorf("request %d: got %s, the first went to %s", id+1, got, home)
		}
	}
	worker := int(home[2] - '0')
	x := newSentIndex(6)
	x.growTo(1)
	for _, c := range []struct {
		first, blocks uint32
		want          [3]int // of the prompts that begin at 10, 20 and 30
	}{
		{10, 4, [3]int{4, 0, 0}},
		{20, 2, [3]int{4, 2, 0}},
		{30, 1, [3]int{3, 2, 1}}, // the end of the oldest goes
		{10, 3, [3]int{3, 2, 1}},
		{30, 4, [3]int{2, 0, 4}},
	} {
		x.enter(blocksFrom(c.first, int(c.blocks)).Prompt, int(c.blocks), 0)
		var got [3]int
		for i := range got {
			matched := []int{0}
			x.match(blocksFrom(uint32(10+10*i), 4).Prompt, 4, matched)
			got[i] = matched[0]
		}
		if got != c.want || x.lists[0].blocks > 6 {
			t.Errorf("after %d blocks from %d: got %v of %d blocks, want %v", c.blocks, c.first, got, x.lists[0].blocks,
				c.want)
		}
	}
	x.forget(0)
	if x.lists[0].blocks != 0 || len(x.places) != 0 || x.lists[0].first != none {
		t.Errorf("got %+v after a worker has gone", x)
	}
	if _, err := p.SetWorkers([]int{(worker + 1) % 4}, 1); err != nil {
		t.Fatal(err)
	}
	if got := sendTo(t, p, 50, blocksFrom(10, 4), 1); got != fmt.Sprintf("50:%d", (worker+1)%4) {
		t.Errorf("got %s with one worker left", got)
	}
}

// TestPickerEvents: with prefix_from events, cache events say what a worker has, and what was sent there does not.
func TestPickerEvents(t *testing.T) {
	p := newPicker(t, `{"queue_weight":0,"kv_weight":0,"prefix_from":"events"}`, 4)
	r := blocksFrom(10, 4)
	p.Apply(2, []kvcache.Event{{Kind: kvcache.Stored, Blocks: r.Prompt.Blocks(0, 3)}})
	for id := range int32(4) {
		if got := sendTo(t, p, id, r, 0); got != fmt.Sprintf("%d:2", id) {
			t.Errorf("got %s", got)
		}
	}
}

// TestPickerBalances: queue, running requests and token load each keep a request away from the worker that has one.
func TestPickerBalances(t *testing.T) {
	for _, weight := range []string{"queue_weight", "kv_weight", "token_load_weight"} {
		p := newPicker(t, strings.Replace(`{"prefix_weight":0,"queue_weight":0,"kv_weight":0,"token_load_weight":0}`,
			`"`+weight+`":0`, `"`+weight+`":1`, 1), 2)
		first := sendTo(t, p, 0, blocksFrom(1, 4), 0)
		if second := sendTo(t, p, 1, blocksFrom(50, 4), 0); first[2:] == second[2:] {
			t.Errorf("%s: both went to worker %s", weight, first[2:])
		}
	}
	p := newPicker(t, `{"prefix_weight":0,"queue_weight":0,"kv_weight":0,"running_weight":1}`, 2)
	first := sendTo(t, p, 0, blocksFrom(1, 4), 0)
	if _, err := p.PrefillCompleted(0, 1); err != nil { // only now it runs
		t.Fatal(err)
	}
	if second := sendTo(t, p, 1, blocksFrom(50, 4), 2); first[2:] == second[2:] {
		t.Errorf("running: both went to worker %s", first[2:])
	}
	p = newPicker(t, `{"prefix_weight":0,"queue_weight":1,"kv_weight":0,"session_weight":9}`, 4)
	r := blocksFrom(1, 4)
	r.Session = "one"
	homes := map[string]bool{}
	for id := range int32(6) {
		homes[sendTo(t, p, id, r, 0)[2:]] = true
	}
	if len(homes) != 1 {
		t.Errorf("a session was on workers %v", homes)
	}
}

// TestPickerPolls: between two polls the same worker looks idle, however much was sent there.
func TestPickerPolls(t *testing.T) {
	p := newPicker(t, `{"prefix_weight":0,"metrics_interval_ms":50}`, 3)
	at := func(ms float64, from int32) map[string]bool {
		homes := map[string]bool{}
		for id := range int32(5) {
			homes[sendTo(t, p, from+id, blocksFrom(uint32(10*(from+id)), 4), ms)[len(fmt.Sprint(from+id))+1:]] = true
		}
		return homes
	}
	if homes := at(0, 0); len(homes) != 3 && len(homes) != 2 {
		t.Errorf("ties went to %v", homes)
	}
	if p.NextTickMs() != 50 {
		t.Fatalf("the next poll is at %v", p.NextTickMs())
	}
	if _, err := p.Free(0, 40); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Tick(50); err != nil {
		t.Fatal(err)
	}
	if homes := at(60, 100); len(homes) != 1 {
		t.Errorf("after a poll, workers %v got requests, want the one with the shortest queue", homes)
	}
}

// TestPickerSaturation: while all workers are saturated, sheddable requests are rejected; with hold, others wait and
// the highest priority goes first.
func TestPickerSaturation(t *testing.T) {
	full := func(saturation string) *router.Asked {
		p := newPicker(t, `{"queue_depth_threshold":1,"saturation":"`+saturation+`"}`, 2)
		sendTo(t, p, 0, blocksFrom(10, 2), 0)
		sendTo(t, p, 1, blocksFrom(20, 2), 0)
		return p
	}
	with := func(priority int64, first uint32) router.Request {
		r := blocksFrom(first, 2)
		r.Priority = priority
		return r
	}
	if got := sendTo(t, full("off"), 2, with(-1, 30), 1); got[:2] != "2:" || got == "2:-1" {
		t.Errorf("off: got %s", got)
	}
	shed := full("shed")
	if got := sendTo(t, shed, 2, with(-1, 30), 1); got != "2:-1" {
		t.Errorf("shed: got %s", got)
	}
	if got := sendTo(t, shed, 3, with(0, 40), 1); got == "" || got == "3:-1" {
		t.Errorf("shed: got %s for a request that must not be shed", got)
	}
	hold := full("hold")
	for id, priority := range []int64{0, 5, 0, 7, -2} {
		got, want := sendTo(t, hold, int32(2+id), with(priority, uint32(30+10*id)), 1), ""
		if priority < 0 {
			want = fmt.Sprintf("%d:-1", 2+id)
		}
		if got != want {
			t.Errorf("hold: request %d with priority %d: got %q, want %q", 2+id, priority, got, want)
		}
	}
	var order []string
	for id := int32(0); len(order) < 4; id++ { // each prompt that is computed makes room for one
		got := went(t)(hold.PrefillCompleted(map[int32]int32{0: 0, 1: 1, 2: 5, 3: 3}[id], float64(2+id)))
		order = append(order, got[:strings.Index(got, ":")])
	}
	if want := []string{"5", "3", "2", "4"}; !slices.Equal(order, want) {
		t.Errorf("hold: went in the order %v, want %v", order, want)
	}
	if hold.Waiting() != 0 {
		t.Errorf("%d still wait", hold.Waiting())
	}
}

// TestPickerDraws: weighted_random takes workers in proportion to their scores, random all alike.
func TestPickerDraws(t *testing.T) {
	for picker, want := range map[string]float64{"weighted_random": 0.75, "random": 0.5} {
		p := newPicker(t,
			`{"prefix_weight":2,"queue_weight":0,"kv_weight":0,"token_load_weight":1,"prefix_from":"events","picker":"`+picker+
				`"}`, 2)
		r := blocksFrom(10, 4)
		p.Apply(1, []kvcache.Event{{Kind: kvcache.Stored, Blocks: r.Prompt.Blocks(0, 4)}})
		const n = 4000
		second := 0
		for id := range int32(n) {
			if strings.HasSuffix(sendTo(t, p, id, r, 0), ":1") {
				second++
			}
			if _, err := p.Free(id, 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := float64(second) / n; got < want-0.04 || got > want+0.04 { // five standard deviations
			t.Errorf("%s: a part of %v went to the worker with the higher score, want %v", picker, got, want)
		}
	}
}

// TestPickerReplicas: two pickers know what they have sent themselves, or with an interval what workers report of both.
func TestPickerReplicas(t *testing.T) {
	for _, c := range []struct {
		settings string
		same     bool
	}{{`{"prefix_weight":0,"router_replicas":2}`, true},
		{`{"prefix_weight":0,"router_replicas":2,"metrics_interval_ms":10}`, false}} {
		m, _ := router.FindMode("endpoint_picker")
		o, err := m.ParseSettings(c.settings)
		if err != nil {
			t.Fatal(err)
		}
		together := 0
		for seed := range uint64(40) {
			p := m.New(router.Options{Workers: 2, BlockSize: 16, Blocks: 100, Settings: o,
				Rand: rand.New(rand.NewPCG(seed, 4))})
			first := sendTo(t, p, 1, blocksFrom(1, 4), 1)
			if ticker := p.(router.Ticker); ticker.NextTickMs() == 10 {
				if _, err := ticker.Tick(10); err != nil {
					t.Fatal(err)
				}
			}
			second := sendTo(t, p, 2, blocksFrom(50, 4), 12)
			if first[2:] == second[2:] {
				together++
			}
		}
		if (together > 0) != c.same {
			t.Errorf("%s: %d of 40 second requests went to the worker of the first", c.settings, together)
		}
	}
}
