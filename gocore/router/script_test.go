package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/scripttest"
)

// TestScripts runs testdata/*.txt; see testdata/costs.txt for how to read them. -rewrite writes the results anew.
func TestScripts(t *testing.T) {
	scripttest.RunOnly(t, "testdata", "router",
		func(t *testing.T, d *datadriven.TestData) string { return newScript(t, d).run() })
}

type script struct {
	t        *testing.T
	d        *datadriven.TestData
	kv       *KV
	out      strings.Builder
	workers  int
	numbers  map[[2]uint32]uint32 // of prefixes, by the number of the prefix before and the last block's name
	requests []string             // names, by id
	pins     map[int32]int
}

func newScript(t *testing.T, d *datadriven.TestData) *script {
	s := &script{t: t, d: d, workers: 2, numbers: map[[2]uint32]uint32{}, pins: map[int32]int{}}
	o := Options{BlockSize: 64, MaxNumBatchedTokens: 8192, Rand: naiveRand(0), Log: s.decided}
	o.Pin = func(id int32) (int, bool) {
		worker, ok := s.pins[id]
		return worker, ok
	}
	config := map[string]json.RawMessage{}
	for _, arg := range d.CmdArgs {
		value := arg.Vals[0]
		switch arg.Key {
		case "workers":
			s.workers = s.number(value)
		case "block_size":
			o.BlockSize = s.number(value)
		case "max_num_batched_tokens":
			o.MaxNumBatchedTokens = s.number(value)
		case "pins":
			if value == "forced" {
				o.PinMode = Forced
			}
		case "stage":
			o.Stage = value
		default:
			config[arg.Key] = json.RawMessage(value)
			if !json.Valid(config[arg.Key]) {
				config[arg.Key] = json.RawMessage(`"` + value + `"`)
			}
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if o.Config, _, err = ParseConfig(string(text)); err != nil {
		d.Fatalf(t, "%v", err)
	}
	switch o.Stage {
	case "prefill":
		o.Config = o.Config.PrefillStage()
	case "decode":
		o.Config = o.Config.DecodeStage()
	}
	o.Workers = s.workers
	s.kv = New(o)
	return s
}

func (s *script) run() string {
	for line := range strings.Lines(s.d.Input) {
		line = strings.TrimSpace(line)
		s.out.WriteString(line + "\n")
		s.step(line, strings.Fields(line))
	}
	return s.out.String()
}

func (s *script) step(line string, words []string) {
	nowMs, err := strconv.ParseFloat(words[0], 64)
	if err != nil || len(words) < 3 {
		s.d.Fatalf(s.t, "cannot read %q", line)
	}
	waiting := s.kv.Waiting()
	var admitted []Admission
	switch words[1] {
	case "stored", "removed":
		s.cacheEvent(words[1], s.worker(words[2]), s.path(words[3]))
		return
	case "submit":
		admitted, err = s.kv.Submit(s.submitted(words[2:]), nowMs)
	case "first":
		admitted, err = s.kv.PrefillCompleted(s.request(words[2]), nowMs)
	case "end":
		admitted, err = s.kv.Free(s.request(words[2]), nowMs)
	case "cancel":
		admitted, err = s.kv.Cancel(s.request(words[2]), nowMs)
	default:
		s.d.Fatalf(s.t, "cannot read %q", line)
	}
	var pin *PinError
	if errors.As(err, &pin) {
		fmt.Fprintf(&s.out, "    error: %v\n", err)
	} else if err != nil {
		s.d.Fatalf(s.t, "%q: %v", line, err)
	}
	if n := s.kv.Waiting(); n != waiting || n > 0 && len(admitted) > 0 {
		fmt.Fprintf(&s.out, "    %d waiting\n", n)
	}
}

// decided shows a decision, with one column per worker.
func (s *script) decided(d Decision) {
	fmt.Fprintf(&s.out, "    %s -> %c", s.requests[d.ID], 'A'+rune(d.Chosen))
	column := func(name string, value func(c Candidate) any) {
		fmt.Fprintf(&s.out, "   %s", name)
		for _, c := range d.Candidates {
			fmt.Fprintf(&s.out, " %v", value(c))
		}
	}
	column("cost", func(c Candidate) any { return c.Cost })
	column("overlap", func(c Candidate) any { return c.OverlapBlocks })
	column("prefill", func(c Candidate) any { return c.PrefillTokens })
	column("active", func(c Candidate) any { return c.ActiveBlocks })
	column("new", func(c Candidate) any { return c.NewBlocks })
	if d.Tied > 1 {
		fmt.Fprintf(&s.out, "   %d tied", d.Tied)
	}
	if d.WaitMs > 0 {
		fmt.Fprintf(&s.out, "   waited %v", math.Round(d.WaitMs*1e6)/1e6)
	}
	s.out.WriteString("\n")
}

// submitted reads NAME TOKENS IDS [to WORKER] [priority N] [strict N].
func (s *script) submitted(words []string) Request {
	r := Request{ID: int32(len(s.requests)), PromptTokens: s.number(words[1]), Prompt: s.path(words[2])}
	s.requests = append(s.requests, words[0])
	for option := range slices.Chunk(words[3:], 2) {
		switch option[0] {
		case "to":
			s.pins[r.ID] = s.worker(option[1])
		case "priority":
			r.Priority = int64(s.number(option[1]))
		case "strict":
			r.StrictPriority = uint64(s.number(option[1]))
		default:
			s.d.Fatalf(s.t, "unknown option %s", option[0])
		}
	}
	return r
}

// cacheEvent stores the whole path, or removes its last block.
func (s *script) cacheEvent(kind string, worker int, path kvcache.Prompt) {
	e := kvcache.Event{Blocks: path.Blocks(0, len(path.Segments))}
	if kind == "removed" {
		e.Kind = kvcache.Removed
		e.Blocks = kvcache.BlocksOf(e.Blocks.Last())
	}
	s.kv.Apply(worker, []kvcache.Event{e})
}

// path reads names of blocks, such as 1..4,50. What comes before a block belongs to its identity.
func (s *script) path(text string) kvcache.Prompt {
	p := kvcache.Prompt{PerSegment: 1}
	parent := uint32(0)
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "..")
		if !isRange {
			last = first
		}
		for name := s.number(first); name <= s.number(last); name++ {
			edge := [2]uint32{parent, uint32(name)}
			if s.numbers[edge] == 0 {
				s.numbers[edge] = uint32(len(s.numbers) + 1)
			}
			parent = s.numbers[edge]
			p.Segments = append(p.Segments, parent)
		}
	}
	return p
}

func (s *script) request(name string) int32 {
	return int32(slices.Index(s.requests, name))
}

func (s *script) worker(name string) int {
	worker := int(name[0]) - 'A'
	if len(name) != 1 || worker < 0 || worker > 25 {
		s.d.Fatalf(s.t, "no worker %q", name)
	}
	return worker
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return n
}
