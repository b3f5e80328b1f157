package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestAccumulationAgainstModel serves random delta traces, rejecting some turns, and compares with a model that writes
// out all tokens: a turn's prompt has the right length, and two blocks have one id exactly when all tokens up to their
// end agree.
func TestAccumulationAgainstModel(t *testing.T) {
	sizes := [][2]int{{8, 4}, {4, 8}, {4, 4}, {6, 4}, {3, 8}, {4, 1}, {16, 2}}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 0))
		size := sizes[rng.IntN(len(sizes))]
		spec := TraceSpec{TraceBlockSize: size[0], EngineBlockSize: size[1]}
		rows := randomDelta(rng, size[0])
		w, err := Load(MooncakeDelta, []Source{{Name: "t", Reader: strings.NewReader(jsonl(rows))}}, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Schedule(false, 1); err != nil {
			t.Fatal(err)
		}
		m := &tokenModel{t: t, rows: rows, spec: spec, said: map[string][]int{}, names: map[string]kvcache.BlockID{},
			texts: map[kvcache.BlockID]string{}, generates: map[string]func(){}}
		d := NewDriver(w, 0)
		drive(d, 3, func(turn int32, _ float64) { m.sent(turn, d.Turn(turn), w.Turns[turn].Next != 0) },
			func(turn int32) bool { return m.over(turn, rng.IntN(4) == 0) })
		if t.Failed() {
			t.Fatalf("seed %d, blocks of %d and %d:\n%s", seed, size[0], size[1], jsonl(rows))
		}
	}
}

type deltaRow struct {
	session string
	ids     []int
	length  int
	output  int
	named   []int // nil = not
}

func randomDelta(rng *rand.Rand, traceBlock int) []deltaRow {
	rows := make([]deltaRow, 1+rng.IntN(14))
	named := rng.IntN(2) == 0
	for i := range rows {
		r := deltaRow{session: fmt.Sprint(rng.IntN(4)), output: 1 + rng.IntN(12)}
		for range 1 + rng.IntN(3) {
			r.ids = append(r.ids, rng.IntN(3))
		}
		r.length = 1 + rng.IntN(len(r.ids)*traceBlock)
		if named && rng.IntN(3) > 0 {
			token := rng.IntN(3)
			for range r.output {
				if rng.IntN(5) == 0 {
					token = rng.IntN(3)
				}
				r.named = append(r.named, token)
			}
		}
		rows[i] = r
	}
	return rows
}

func jsonl(rows []deltaRow) string {
	list := func(numbers []int) string { return strings.Join(strings.Fields(fmt.Sprint(numbers)), ",") }
	known := map[string]bool{}
	var b strings.Builder
	for i, r := range rows {
		when := fmt.Sprintf(`"timestamp":%d`, i)
		if known[r.session] {
			when = fmt.Sprintf(`"delay":%d`, i%3)
		}
		known[r.session] = true
		fmt.Fprintf(&b, `{"session_id":"%s",%s,"hash_ids":%s,"input_length":%d,"output_length":%d`, r.session, when,
			list(r.ids), r.length, r.output)
		if r.named != nil {
			fmt.Fprintf(&b, `,"output_token_ids":%s`, list(r.named))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// tokenModel knows what each session has said, token by token.
type tokenModel struct {
	t     *testing.T
	rows  []deltaRow
	spec  TraceSpec
	said  map[string][]int
	fresh int // tokens that no other sequence has, counted downwards
	names map[string]kvcache.BlockID
	texts map[kvcache.BlockID]string

	generates map[string]func() // by session, whose turn it is
}

func (m *tokenModel) sent(turn int32, got *Turn, hasNext bool) {
	r := m.rows[turn]
	prompt := append(m.said[r.session], expand(r.ids, r.length, m.spec.TraceBlockSize)...)
	if got.InputTokens != len(prompt) {
		m.t.Errorf("turn %d: got %d tokens, want %d", turn, got.InputTokens, len(prompt))
		return
	}
	all := append(slices.Clone(prompt), m.output(r)...)
	m.said[r.session] = all
	size := m.spec.EngineBlockSize
	if want := len(all) / size; (hasNext || r.named != nil) && got.NamedBlocks != want {
		m.t.Errorf("turn %d: got %d named blocks, want %d", turn, got.NamedBlocks, want)
		return
	}
	blocks := max(len(prompt)/size, got.NamedBlocks)
	ids := got.Prompt.AppendBlocks(nil, 0, blocks)
	m.know(turn, all, ids[:len(prompt)/size])
	m.generates[r.session] = func() { m.know(turn, all, ids) }
}

// know compares the ids of blocks that now are, or can be, in a cache.
func (m *tokenModel) know(turn int32, tokens []int, ids []kvcache.BlockID) {
	for i, id := range ids {
		text := fmt.Sprint(tokens[:(i+1)*m.spec.EngineBlockSize])
		if known, met := m.names[text]; met && known != id {
			m.t.Errorf("turn %d: block %d is %d, but %d with the same tokens before", turn, i, id, known)
		}
		if known, met := m.texts[id]; met && known != text {
			m.t.Errorf("turn %d: block %d is %d, which has other tokens", turn, i, id)
		}
		m.names[text], m.texts[id] = id, text
	}
}

func (m *tokenModel) output(r deltaRow) []int {
	if r.named != nil {
		return r.named
	}
	var tokens []int
	for range r.output {
		m.fresh--
		tokens = append(tokens, m.fresh)
	}
	return tokens
}

// over takes back what a rejected turn did not generate.
func (m *tokenModel) over(turn int32, rejected bool) bool {
	r := m.rows[turn]
	if rejected {
		m.said[r.session] = m.said[r.session][:len(m.said[r.session])-r.output]
	} else {
		m.generates[r.session]()
	}
	return rejected
}

func expand(ids []int, length, traceBlock int) []int {
	var tokens []int
	for _, id := range ids {
		for range traceBlock {
			tokens = append(tokens, id)
		}
	}
	return tokens[:length]
}

// TestTurnsShareTheirPrompts checks that a long session does not hold each prompt anew.
func TestTurnsShareTheirPrompts(t *testing.T) {
	text := strings.Repeat(`{"session_id":"s","timestamp":0,"hash_ids":[1],"output_length":4}`+"\n", 50)
	w, err := Load(MooncakeDelta, []Source{{Name: "t", Reader: strings.NewReader(text)}},
		TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := &w.Turns[48].Prompt.Segments[0], &w.Turns[49].Prompt.Segments[0]; a != b {
		t.Error("two turns hold two lists")
	}
}
