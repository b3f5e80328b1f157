package policies

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// decisionCase is what a real router did with a script of requests: tests/conformance/routers.jsonl.gz.
type decisionCase struct {
	ID, Router, Policy, Kind, Numbering string
	Label                               string // of fresh ones: the policy, and what is special
	Port, Workers, Prefill, Decode      int
	Options                             map[string]json.RawMessage
	Requests                            []decisionRequest
	Events                              []string
	Decisions                           []json.RawMessage
	MoreRuns                            [][]json.RawMessage `json:"more_runs"`
}

type decisionRequest struct {
	Parts    [][2]any
	Messages []struct {
		Role  string
		Parts [][2]any
	}
	Headers map[string]string
}

func decisionCases(t *testing.T, path string) (cases []decisionCase) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked := io.Reader(file)
	if strings.HasSuffix(path, ".gz") {
		if unpacked, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c decisionCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// pieces returns the text of a prompt: each piece is the beginning of the digests of "seed:0", "seed:1" and so on.
func pieces(parts [][2]any) string {
	var b strings.Builder
	for _, part := range parts {
		seed, n := part[0].(string), int(part[1].(float64))
		var piece strings.Builder
		for k := 0; piece.Len() < n; k++ {
			fmt.Fprintf(&piece, "%x", sha256.Sum256(fmt.Appendf(nil, "%s:%d", seed, k)))
		}
		b.WriteString(piece.String()[:n])
	}
	return b.String()
}

// text returns what the router sees of a request.
func (r decisionRequest) text(of string) string {
	if r.Messages == nil {
		return pieces(r.Parts)
	}
	var said []string
	for _, m := range r.Messages {
		if of == "vllm-router" {
			said = append(said, "<"+m.Role+">"+pieces(m.Parts))
		} else {
			said = append(said, pieces(m.Parts))
		}
	}
	if of == "vllm-router" {
		return strings.Join(said, "")
	}
	return strings.Join(said, " ")
}

// characters gives each distinct prefix of texts an id, so that a character is a block.
type characters map[[2]uint64]uint32

func (c characters) prompt(text string) kvcache.Prompt {
	p := kvcache.Prompt{PerSegment: 1}
	parent := uint64(0)
	for i := range len(text) {
		key := [2]uint64{parent, uint64(text[i])}
		id, known := c[key]
		if !known {
			id = uint32(len(c) + 1)
			c[key] = id
		}
		p.Segments = append(p.Segments, id)
		parent = uint64(id)
	}
	return p
}

// outcomes tries every sequence of draws, and returns the probability of each worker.
func outcomes(choose func(chance) int) map[int]float64 {
	chances := map[int]float64{}
	var draws scripted
	for {
		draws.at, draws.probability = 0, 1
		worker := choose(&draws)
		chances[worker] += draws.probability
		for len(draws.made) > 0 {
			last := len(draws.made) - 1
			if draws.made[last]++; draws.made[last] < draws.of[last] {
				break
			}
			draws.made, draws.of = draws.made[:last], draws.of[:last]
		}
		if len(draws.made) == 0 {
			return chances
		}
	}
}

// scripted draws what it is given, and then zeros.
type scripted struct {
	made, of    []int
	at          int
	probability float64
}

func (s *scripted) IntN(n int) int {
	if s.at == len(s.made) {
		s.made, s.of = append(s.made, 0), append(s.of, n)
	}
	s.probability /= float64(n)
	s.at++
	return s.made[s.at-1]
}

// modeOf returns the mode and its settings that stand for a policy of a real router; in "a/b" it is that of the prefill
// workers.
func (c *decisionCase) modeOf(policy string) (name, settings string) {
	switch policy {
	case "cache_aware":
		name = strings.TrimSuffix(c.Router, "-router") + "_cache_aware"
	case "consistent_hashing":
		name = "consistent_hash"
	case "least_load":
		name = "least_requests"
	default:
		name = policy
	}
	mode, _ := router.FindMode(name)
	kept := map[string]json.RawMessage{}
	for _, f := range mode.Settings {
		if v, given := c.Options[f.Name]; given {
			kept[f.Name] = v
		}
	}
	if c.Router == "sglang-router" && policy == "power_of_two" { // it compares reports, and these workers send none
		kept["load"], kept["metrics_interval_ms"] = json.RawMessage(`"tokens"`), json.RawMessage(`30000`)
	}
	text, _ := json.Marshal(kept)
	return name, string(text)
}

// ruleOf makes the router of a case, and its rule.
func (c *decisionCase) ruleOf(t *testing.T, policy string, workers int) *pool {
	t.Helper()
	name, text := c.modeOf(policy)
	mode, found := router.FindMode(name)
	if !found {
		t.Fatalf("no mode %q", name)
	}
	settings, err := mode.ParseSettings(text)
	if err != nil {
		t.Fatal(err)
	}
	p := mode.New(router.Options{Workers: workers, BlockSize: 1, Settings: settings,
		Rand: rand.New(rand.NewPCG(1, 1))}).(*pool)
	url := func(worker int) string { return "http://127.0.0.1:" + strconv.Itoa(c.Port+worker) }
	switch r := p.replicas[0].rule.(type) {
	case *consistentHash:
		r.ring.name = url
	case *prefixHash:
		r.ring.name = url
	}
	return p
}

// replayed replays a case: each decision is compared with what the rule allows, then the recorded one is carried out.
func (c *decisionCase) replayed(t *testing.T, p *pool, decisions []int,
	check func(request int, allowed map[int]float64, taken int)) {
	t.Helper()
	nowMs, ids := 0.0, characters{}
	for _, event := range c.Events {
		switch n, _ := strconv.Atoi(event[1:]); event[0] {
		case 'p':
			seconds, _ := strconv.ParseFloat(event[1:], 64)
			nowMs += 1000 * seconds
		case 'e':
			if _, err := p.Free(int32(n), nowMs); err != nil {
				t.Fatal(err)
			}
		case 's':
			text := c.Requests[n].text(c.Router)
			r := router.Request{ID: int32(n), Prompt: ids.prompt(text), PromptTokens: len(text), Session: c.key(n)}
			a := &p.replicas[0]
			if h, is := a.rule.(*prefixHash); is {
				h.key = func(*router.Request) uint64 {
					return hashKey(fmt.Sprintf("%016x", xxh3.HashString(text[:min(len(text), 4*h.tokens)])))
				}
			}
			allowed := map[int]float64{}
			asked := rule(asking{a.rule, func(chosen rule, v *view, r *router.Request) int {
				allowed = outcomes(func(draw chance) int {
					if s, is := chosen.(*sticky); is {
						s.tie = func(_ *router.Request, ties int) int { return draw.IntN(ties) }
					}
					return chosen.choose(v, r, draw)
				})
				return decisions[n]
			}})
			own := a.rule
			a.rule = asked
			if _, err := p.Submit(r, nowMs); err != nil {
				t.Fatal(err)
			}
			a.rule = own
			check(n, allowed, decisions[n])
			// a prefill worker is done before the decode worker has the request
			if c.Router == "vllm-router" && c.Prefill > 0 {
				if _, err := p.Free(int32(n), nowMs); err != nil {
					t.Fatal(err)
				}
			}
		default:
			t.Fatalf("event %q", event)
		}
	}
}

// asking is a rule whose choice another one is asked about and does not make.
type asking struct {
	rule
	answer func(rule, *view, *router.Request) int
}

func (a asking) choose(v *view, r *router.Request, _ chance) int { return a.answer(a.rule, v, r) }

func (c *decisionCase) key(request int) string {
	for _, value := range c.Requests[request].Headers {
		return value
	}
	return ""
}

func numbers(t *testing.T, raw []json.RawMessage, part int) (all []int) {
	t.Helper()
	for _, text := range raw {
		var one int
		var pair []int
		switch {
		case json.Unmarshal(text, &one) == nil:
			all = append(all, one)
		case json.Unmarshal(text, &pair) == nil && len(pair) == 2:
			all = append(all, pair[part])
		default:
			t.Fatalf("decision %s", text)
		}
	}
	return all
}

// TestRecordedDecisions replays what real routers did. Of an "exact" case every decision is reproduced, of a "random"
// one every decision is among those that the rule allows, and of a "statistical" one the frequencies agree.
func TestRecordedDecisions(t *testing.T) {
	cases := decisionCases(t, "../../../tests/conformance/routers.jsonl.gz")
	if len(cases) != 45 {
		t.Fatalf("%d cases", len(cases))
	}
	forced, all := 0, 0
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			for part, policy := range strings.Split(c.Policy, "/") {
				workers := c.Workers
				if c.Prefill > 0 {
					workers = []int{c.Prefill, c.Decode}[part]
				}
				for _, run := range append([][]json.RawMessage{c.Decisions}, c.MoreRuns...) {
					v := c.judge(t, policy, workers, numbers(t, run, part))
					for _, wrong := range v.wrong {
						t.Error(wrong)
					}
					if v.chiSquare > 16.27 { // with 3 degrees of freedom it exceeds this once in 1,000 times
						t.Errorf("the frequencies differ from those of the rule: chi-square %v", v.chiSquare)
					}
					forced, all = forced+v.forced, all+v.all
				}
			}
		})
	}
	t.Logf("%d of %d decisions were the only ones allowed", forced, all)
}

// verdict is what a policy says of the decisions of a real router.
type verdict struct {
	all       int
	forced    int      // that were the only ones allowed
	wrong     []string // those that are not allowed
	chiSquare float64  // of a statistical case: how far the frequencies are from those of the rule
	freedom   int      // its degrees
}

func (v *verdict) complain(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (c *decisionCase) judge(t *testing.T, policy string, workers int, decisions []int) (v verdict) {
	t.Helper()
	switch {
	case policy == "round_robin":
		turns := router.NewRoundRobin(workers)
		for i, event := range slices.DeleteFunc(slices.Clone(c.Events), func(e string) bool { return e[0] != 's' }) {
			n, _ := strconv.Atoi(event[1:])
			if a, _ := turns.Submit(router.Request{ID: int32(n)}, 0); a[0].Worker != decisions[n] {
				v.complain("request %d, number %d: worker %d, the real router took %d", n, i, a[0].Worker, decisions[n])
			}
		}
		v.forced, v.all = len(decisions), len(decisions)
		return v
	case policy == "consistent_hash":
		v.all = len(decisions)
		c.judgeStickiness(t, &v, workers, decisions)
		return v
	}
	expected, seen := make([]float64, workers), make([]float64, workers)
	c.replayed(t, c.ruleOf(t, policy, workers), decisions, func(request int, allowed map[int]float64, taken int) {
		v.all++
		if len(allowed) == 1 {
			v.forced++
		} else if c.Kind == "exact" && policy != "sticky_least_loaded" {
			v.complain("request %d: the rule leaves %v to chance", request, allowed)
		}
		if allowed[taken] == 0 {
			v.complain("request %d: the rule allows %v, the real router took %d", request, allowed, taken)
		}
		for w, chance := range allowed {
			expected[w] += chance
		}
		seen[taken]++
	})
	if c.Kind == "statistical" {
		for w := range expected {
			v.chiSquare += (seen[w] - expected[w]) * (seen[w] - expected[w]) / expected[w]
		}
		v.freedom = workers - 1
	}
	return v
}

// judgeStickiness: the hash of vLLM's router is not known. A key stays with its worker there, and with ours.
func (c *decisionCase) judgeStickiness(t *testing.T, v *verdict, workers int, decisions []int) {
	t.Helper()
	real, own := map[string]int{}, map[string]int{}
	p := c.ruleOf(t, "consistent_hash", workers)
	used := map[int]bool{}
	for n := range c.Requests {
		key := fmt.Sprint(c.Requests[n].Headers)
		a, err := p.Submit(router.Request{ID: int32(n), Session: key, PromptTokens: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, seen := range []struct {
			homes  map[string]int
			worker int
		}{{real, decisions[n]}, {own, a[0].Worker}} {
			if home, known := seen.homes[key]; known && home != seen.worker {
				v.complain("request %d: key %s was at %d, is at %d", n, key, home, seen.worker)
			}
			seen.homes[key] = seen.worker
		}
		used[a[0].Worker] = true
	}
	if len(used) != workers {
		v.complain("keys are on workers %v of %d", used, workers)
	}
}

// openShares is how large a part of the decisions of a policy may differ from the rule: what docs/routers.md says is
// not known of it. Three times the part that differed in November 2026 is no change of the router; of other policies
// none may differ.
var openShares = map[[2]string]float64{
	{"sglang-router", "cache_aware, eviction"}: 3 * 1.0 / 720,
	{"vllm-router", "cache_aware, eviction"}:   3 * 4.0 / 720,
	{"smg", "cache_aware"}:                     3 * 3.0 / 5000,
}

// beyond says which of the decisions should not differ, "" if those that do are as few as the policy leaves open.
func (v *verdict) beyond(router, label string) string {
	share := openShares[[2]string{router, label}]
	if len(v.wrong) == 0 || float64(len(v.wrong)) <= math.Ceil(share*float64(v.all)) {
		return ""
	}
	return fmt.Sprintf("%s %s: %d of %d decisions are not allowed, at most a part of %.3g is open: %s", router, label,
		len(v.wrong), v.all, share, v.wrong[0])
}

// TestBeyond: few decisions of a policy that is not known in full may differ, none of others.
func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		router, label string
		wrong, all    int
		fails         bool
	}{
		{"smg", "cache_aware", 0, 5000, false},
		{"smg", "cache_aware", 9, 5000, false},
		{"smg", "cache_aware", 10, 5000, true},
		{"vllm-router", "cache_aware, eviction", 12, 720, false},
		{"vllm-router", "cache_aware, eviction", 13, 720, true},
		{"vllm-router", "cache_aware", 1, 5000, true},
		{"vllm-router", "cache_aware", 0, 5000, false},
	} {
		v := verdict{all: c.all, wrong: slices.Repeat([]string{"request 7"}, c.wrong)}
		if said := v.beyond(c.router, c.label); (said != "") != c.fails {
			t.Errorf("%+v: got %q", c, said)
		}
	}
}

var fresh = flag.String("fresh", "", "judge what real routers did in this file, and print a table; "+
	"tests/truth/draw_routers.py writes it")

// TestFreshDecisions judges scripts that were drawn and played just now.
func TestFreshDecisions(t *testing.T) {
	if *fresh == "" {
		t.Skip("make routers draws fresh scripts")
	}
	type row struct {
		router, label, kind string
		cases               int
		verdict
	}
	var rows []*row
	for _, c := range decisionCases(t, *fresh) {
		i := slices.IndexFunc(rows, func(r *row) bool { return r.router == c.Router && r.label == c.Label })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{router: c.Router, label: c.Label, kind: c.Kind})
		}
		workers := c.Workers
		if c.Prefill > 0 {
			workers = c.Prefill
		}
		v, sum := c.judge(t, c.Policy, workers, numbers(t, c.Decisions, 0)), rows[i]
		for i, wrong := range v.wrong {
			v.wrong[i] = c.ID + ": " + wrong
		}
		sum.cases, sum.all, sum.forced, sum.freedom = sum.cases+1, sum.all+v.all, sum.forced+v.forced,
			sum.freedom+v.freedom
		sum.chiSquare += v.chiSquare
		sum.wrong = append(sum.wrong, v.wrong...)
	}
	fmt.Println("| router | policy | kind | scripts | decisions | forced | not allowed " +
		"|\n|---|---|---|---|---|---|---|")
	for _, r := range rows {
		judged := strconv.Itoa(len(r.wrong))
		switch failing := r.beyond(r.router, r.label); {
		case failing != "":
			t.Error(failing)
		case len(r.wrong) > 0:
			judged += ", open"
			t.Logf("open: %s", strings.Join(r.wrong, "\nopen: "))
		}
		if r.kind == "statistical" {
			judged += fmt.Sprintf("; chi-square %.0f of %d degrees", r.chiSquare, r.freedom)
			// Wilson and Hilferty's approximation of what chance exceeds once in 1,000 times.
			f := float64(r.freedom)
			if limit := f * math.Pow(1-2/(9*f)+3.09*math.Sqrt(2/(9*f)), 3); r.chiSquare > limit {
				t.Errorf("%s %s: the frequencies differ from those of the rule: chi-square %v, limit %v", r.router,
					r.label, r.chiSquare, limit)
			}
		}
		fmt.Printf("| %s | %s | %s | %d | %d | %d | %s |\n", r.router, r.label, r.kind, r.cases, r.all, r.forced,
			judged)
	}
}
