package workload

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestChunkPaths compares with an interner that is given the same prompts.
func TestChunkPaths(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var paths chunkPaths
		blocks := newInterner(16, 4)
		type prompt struct {
			last   chunkPlace
			chunks []uint32
		}
		var prompts []prompt
		talks := make([][]uint64, 1+rng.IntN(8))
		for range 300 {
			ids := &talks[rng.IntN(len(talks))]
			if rng.IntN(9) == 0 {
				*ids = (*ids)[:rng.IntN(len(*ids)+1)] // goes on differently from there
			}
			for range rng.IntN(5) {
				*ids = append(*ids, uint64(rng.IntN(4)))
			}
			at := beforeAll
			for _, id := range *ids {
				at = paths.next(at, uint32(id))
			}
			prompts = append(prompts, prompt{at, blocks.prompt(noParent, *ids, 16*len(*ids)).Segments})
		}
		if uint64(paths.chunks) != blocks.chunks {
			t.Fatalf("seed %d: %d chunks, want %d", seed, paths.chunks, blocks.chunks)
		}
		later := newInterner(16, 4)
		later.take(&paths)
		for i, ids := range talks {
			want := blocks.prompt(noParent, ids, 16*len(ids))
			if got := later.prompt(noParent, ids, 16*len(ids)); !slices.Equal(got.Segments, want.Segments) {
				t.Fatalf("seed %d: talk %d: another interner gives %v, want %v", seed, i, got.Segments, want.Segments)
			}
		}
		paths.close()
		for i, p := range prompts {
			got := make([]uint32, len(p.chunks))
			if paths.path(p.last, got); !slices.Equal(got, p.chunks) {
				t.Fatalf("seed %d: prompt %d: got %v, want %v", seed, i, got, p.chunks)
			}
		}
	}
}

func TestStretches(t *testing.T) {
	var s stretches[int]
	for i := range 3*stretchLength + 5 {
		if s.len() != i {
			t.Fatalf("got %d entries, want %d", s.len(), i)
		}
		s.add(i)
	}
	for i := range s.len() {
		if got := *s.at(uint32(i)); got != i {
			t.Fatalf("entry %d: got %d", i, got)
		}
	}
}

// packable returns a trace whose rows can be packed, unless odd is the number of a row that cannot.
func packable(rng *rand.Rand, odd int) string {
	var b strings.Builder
	at := rng.IntN(100)
	talks := make([][]string, 6)
	for i := range 60 {
		if rng.IntN(12) == 0 {
			b.WriteString(" \n")
		}
		at += rng.IntN(3)
		ids := &talks[rng.IntN(len(talks))]
		for n := rng.IntN(4); n > 0 || len(*ids) == 0; n-- {
			*ids = append(*ids, fmt.Sprint(rng.IntN(5)+rng.IntN(2)<<32))
		}
		more, timestamp := "", at
		if i == odd {
			switch rng.IntN(6) {
			case 0:
				more = `,"session_id":"a"`
			case 1:
				more = `,"output_token_ids":[1,2,3]`
			case 2:
				more = `,"priority":3`
			case 3:
				timestamp = at - 2
			case 4:
				timestamp = -at
			case 5:
				more = fmt.Sprintf(`,"session_id":"request_%d","delay":3`, 1)
			}
		}
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]%s}`+"\n",
			timestamp, 1+rng.IntN(16*len(*ids)+8), 1+rng.IntN(5), strings.Join(*ids, ","), more)
	}
	return b.String()
}

// TestPacked reads traces packed and not: what their drivers release is the same.
func TestPacked(t *testing.T) {
	packedOnes := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		odd := -1
		if seed%2 == 1 {
			odd = rng.IntN(60)
		}
		text := packable(rng, odd)
		spec := TraceSpec{TraceBlockSize: 16, EngineBlockSize: []int{4, 16, 5}[seed%3], NamePartialBlocks: seed%5 == 0}
		plain, errPlain := loadUnpacked(text, spec)
		whole, errWhole := Load(Mooncake, []Source{{"t", strings.NewReader(text)}}, spec)
		if fmt.Sprint(errWhole) != fmt.Sprint(errPlain) || errPlain == nil && !sameTurns(whole, plain) {
			t.Fatalf("seed %d: turns, sessions or errors differ: %v, want %v", seed, errWhole, errPlain)
		}
		spec.Passing = true
		compact, err := Load(Mooncake, []Source{{"t", strings.NewReader(text)}}, spec)
		if fmt.Sprint(err) != fmt.Sprint(errPlain) {
			t.Fatalf("seed %d: got error %v, want %v", seed, err, errPlain)
		}
		if err != nil {
			continue
		}
		if compact.passing != nil {
			packedOnes++
		} else if !sameTurns(compact, plain) {
			t.Fatalf("seed %d: turns or sessions differ", seed)
		}
		if !reflect.DeepEqual(compact.Notes, plain.Notes) || compact.Len() != plain.Len() {
			t.Fatalf("seed %d: got %d turns and notes %v, want %d and %v", seed, compact.Len(), compact.Notes,
				plain.Len(), plain.Notes)
		}
		concurrency := int(seed % 4 / 2 * 3)
		errPlain, err = plain.Schedule(concurrency > 0, 3), compact.Schedule(concurrency > 0, 3)
		if fmt.Sprint(err) != fmt.Sprint(errPlain) {
			t.Fatalf("seed %d: got error %v, want %v", seed, err, errPlain)
		}
		if err == nil && concurrency == 0 && compact.LastStartMs() != plain.LastStartMs() {
			t.Fatalf("seed %d: the last request comes at %v ms, want %v", seed, compact.LastStartMs(),
				plain.LastStartMs())
		}
		if err == nil {
			sameReleases(t, seed, NewDriver(compact, concurrency), NewDriver(plain, concurrency))
		}
	}
	if packedOnes < 40 || packedOnes > 160 {
		t.Errorf("%d of 200 traces were packed", packedOnes)
	}
}

// loadUnpacked reads a trace without packing it.
func loadUnpacked(text string, spec TraceSpec) (*Workload, error) {
	w := &Workload{File: "t", Format: Mooncake}
	l := newSessionLoader(w, spec)
	l.packed = nil
	err := readRows(w, Source{"t", strings.NewReader(text)}, &spec, mooncakeKeys, nil, func(line int, r *row) error {
		l.line = line
		return l.add(r)
	})
	if err != nil {
		return nil, err
	}
	return w, l.finish()
}

func sameTurns(a, b *Workload) bool {
	return reflect.DeepEqual(a.Turns, b.Turns) && reflect.DeepEqual(a.Sessions, b.Sessions)
}

// sameReleases runs two drivers side by side. A request takes a millisecond.
func sameReleases(t *testing.T, seed uint64, got, want *Driver) {
	t.Helper()
	for {
		atMs, ok := got.NextMs()
		if wantMs, wantOK := want.NextMs(); atMs != wantMs || ok != wantOK {
			t.Fatalf("seed %d: the next request comes at %v ms, want %v", seed, atMs, wantMs)
		}
		if !ok {
			return
		}
		turn, sentMs, _ := got.Next(atMs)
		wantTurn, wantMs, _ := want.Next(atMs)
		a, b := *got.Turn(turn), *want.Turn(wantTurn)
		if turn != wantTurn || sentMs != wantMs || !slices.Equal(a.Prompt.Segments, b.Prompt.Segments) ||
			got.w.TurnName(turn) != want.w.TurnName(turn) {
			t.Fatalf("seed %d: got turn %d (%s) at %v, want %d (%s) at %v", seed, turn, got.w.TurnName(turn), sentMs,
				wantTurn, want.w.TurnName(wantTurn), wantMs)
		}
		if a.Prompt.Segments, b.Prompt.Segments = nil, nil; !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: got %+v, want %+v", seed, a, b)
		}
		got.Completed(turn, atMs+1)
		want.Completed(turn, atMs+1)
	}
}

// TestPackedRefuses: a bad line is found while the trace is read, however many good ones precede it.
func TestPackedRefuses(t *testing.T) {
	text := packable(rand.New(rand.NewPCG(1, 1)), -1)
	lines := bytes.Count([]byte(text), []byte("\n"))
	for _, bad := range []string{`{"timestamp":1e9,"input_length":5,"output_length":-1,"hash_ids":[1]}`,
		`{"timestamp"`} {
		_, err := Load(Mooncake, []Source{{"t", strings.NewReader(text + bad)}},
			TraceSpec{TraceBlockSize: 16, EngineBlockSize: 4, Passing: true})
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("t line %d: ", lines+1)) {
			t.Errorf("got %v, want an error of line %d", err, lines+1)
		}
	}
	_, err := Load(Mooncake, []Source{{"t", strings.NewReader("\n")}}, TraceSpec{EngineBlockSize: 64, Passing: true})
	if err == nil || err.Error() != "t: holds no requests" {
		t.Errorf("got %v", err)
	}
}
