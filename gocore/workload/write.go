package workload

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/spelling"
)

// jsonLine builds one JSON object, key by key.
type jsonLine []byte

func (l *jsonLine) key(name string) {
	separator := byte(',')
	if len(*l) == 0 {
		separator = '{'
	}
	*l = append(append(append(*l, separator, '"'), name...), '"', ':')
}

func (l *jsonLine) text(name, value string) {
	l.key(name)
	*l = appendQuoted(*l, value)
}

func (l *jsonLine) integer(name string, value int64) {
	l.key(name)
	*l = strconv.AppendInt(*l, value, 10)
}

// number writes the shortest digits that read back the same, with a point or an exponent.
func (l *jsonLine) number(name string, value float64) {
	l.key(name)
	*l = spelling.AppendNumber(*l, value)
}

func (l *jsonLine) texts(name string, values []string) {
	l.list(name, len(values), func(i int) { *l = appendQuoted(*l, values[i]) })
}

func (l *jsonLine) list(name string, length int, element func(i int)) {
	l.key(name)
	*l = append(*l, '[')
	for i := range length {
		if i > 0 {
			*l = append(*l, ',')
		}
		element(i)
	}
	*l = append(*l, ']')
}

func unsignedsOf[T uint32 | uint64](l *jsonLine, name string, values []T) {
	l.list(name, len(values), func(i int) { *l = strconv.AppendUint(*l, uint64(values[i]), 10) })
}

// flush writes the object and a line end, and makes l empty.
func (l *jsonLine) flush(out *bufio.Writer) error {
	_, err := out.Write(append(*l, '}', '\n'))
	*l = (*l)[:0]
	return err
}

// appendQuoted writes a text that came from valid JSON.
func appendQuoted(dst []byte, value string) []byte {
	quoted, err := jsontext.AppendQuote(dst, value)
	if err != nil {
		panic("workload: a text is not valid UTF-8: " + err.Error())
	}
	return quoted
}

// Saved says how to read a workload that was saved.
type Saved struct {
	Format         Format
	TraceBlockSize int
}

// maxTraceBlock is the largest block that a saved trace uses.
const maxTraceBlock = 1 << 20

// Save writes a workload as a trace that replays as the workload does, with the same options and block size of the
// engine: Mooncake JSONL, in its agentic form if requests wait for each other, in its delta form if prompts accumulate.
// Times are written as they are: before Schedule, the options that change them apply again.
//
// Tokens differ from the original ones, but prompts share the same prefixes. Where every turn has a line of its own,
// lines keep their numbers, with blank lines between them if necessary.
func (w *Workload) Save(out io.Writer, engineBlockSize int) (Saved, error) {
	s := &saver{w: w, engineBlock: engineBlockSize, out: bufio.NewWriterSize(out, 1<<16)}
	if err := s.choose(); err != nil {
		return Saved{}, err
	}
	for turn := range int32(len(w.Turns)) {
		if err := s.save(turn); err != nil {
			return Saved{}, err
		}
	}
	return s.how, s.out.Flush()
}

type saver struct {
	w           *Workload
	engineBlock int
	out         *bufio.Writer
	how         Saved
	blocks      bool   // prompts are written block by block
	fill        uint64 // next id for blocks that no other prompt shares
	lines       int32
	line        jsonLine
	ids         []uint64
	scratch     []kvcache.BlockID
}

// choose finds the format and the block size.
func (s *saver) choose() error {
	if s.w.delta != nil {
		s.how = Saved{Format: MooncakeDelta, TraceBlockSize: s.w.delta.blocks.traceBlock}
		return nil
	}
	perSegment, last := 1, uint64(0)
	for i := range s.w.Turns {
		prompt := s.w.Turns[i].Prompt
		perSegment = max(perSegment, prompt.PerSegment)
		for _, segment := range prompt.Segments {
			last = max(last, uint64(segment))
		}
	}
	s.how.TraceBlockSize = s.engineBlock * perSegment
	if s.w.WaitFor != nil {
		s.how.Format = Agentic
	}
	if s.how.TraceBlockSize > maxTraceBlock {
		s.blocks, s.how.TraceBlockSize = true, s.engineBlock
		last = (last+1)*uint64(perSegment) - 1
	}
	if s.fill = last + 1; last > math.MaxUint32 {
		return fmt.Errorf("the workload has more than %d distinct blocks, too many for a trace", uint32(math.MaxUint32))
	}
	return nil
}

func (s *saver) save(turn int32) error {
	t := &s.w.Turns[turn]
	for ; s.lines < t.Row; s.lines++ {
		if err := s.out.WriteByte('\n'); err != nil {
			return err
		}
	}
	s.identity(turn, t)
	s.times(turn, t)
	if s.w.delta != nil {
		s.deltaPrompt(turn, t)
	} else {
		s.prompt(t)
	}
	s.hints(turn)
	s.lines++
	return s.line.flush(s.out)
}

// identity writes the name of the session, unless a reader would give it the same name anyway.
func (s *saver) identity(turn int32, t *Turn) {
	session := &s.w.Sessions[t.Session]
	if s.w.WaitFor != nil {
		s.line.text("request_id", s.w.RequestIDs[turn])
	}
	if session.Named || session.First != turn || s.lines != t.Row {
		s.line.text("session_id", s.w.SessionName(turn))
	}
}

func (s *saver) times(turn int32, t *Turn) {
	session := &s.w.Sessions[t.Session]
	if session.First == turn && session.Timed {
		s.line.number("timestamp", session.StartMs)
	}
	waits := s.w.WaitFor != nil && len(s.w.WaitFor[turn]) > 0
	if session.First != turn || waits {
		s.line.number("delay", t.DelayMs)
	}
	if waits {
		names := make([]string, len(s.w.WaitFor[turn]))
		for i, earlier := range s.w.WaitFor[turn] {
			names[i] = s.w.RequestIDs[earlier]
		}
		s.line.texts("wait_for", names)
	}
}

func (s *saver) deltaPrompt(turn int32, t *Turn) {
	in := &s.w.delta.inputs[turn]
	s.line.integer("input_length", int64(in.length))
	s.line.integer("output_length", int64(t.OutputTokens))
	unsignedsOf(&s.line, "hash_ids", in.hashIDs)
	if in.salt != "" {
		s.line.text("cache_salt", in.salt)
	}
	if len(in.output) > 0 {
		unsignedsOf(&s.line, "output_token_ids", in.output)
	}
}

// prompt writes the ids of a prompt: each trace block stands for copies of one token, and prefixes are equal exactly
// when their ids are. Blocks of the output that other requests can find are written as tokens of the same kind.
func (s *saver) prompt(t *Turn) {
	s.ids = s.ids[:0]
	if s.blocks {
		s.scratch = t.Prompt.AppendBlocks(s.scratch[:0], 0, t.InputTokens/s.engineBlock)
		for _, id := range s.scratch {
			s.ids = append(s.ids, uint64(id))
		}
	} else {
		for _, segment := range t.Prompt.Segments {
			s.ids = append(s.ids, uint64(segment))
		}
	}
	covered := len(s.ids)
	needed := (t.InputTokens-1)/s.how.TraceBlockSize + 1
	for len(s.ids) < needed {
		s.ids = append(s.ids, s.fill)
		s.fill++
	}
	s.line.integer("input_length", int64(t.InputTokens))
	s.line.integer("output_length", int64(t.OutputTokens))
	unsignedsOf(&s.line, "hash_ids", s.ids[:needed])
	if t.NamedBlocks*s.engineBlock > t.InputTokens {
		s.line.list("output_token_ids", t.OutputTokens, func(i int) {
			token := uint64(0)
			if block := (t.InputTokens + i) / s.engineBlock; block < covered {
				token = s.ids[block]
			}
			s.line = strconv.AppendUint(s.line, token, 10)
		})
	}
}

func (s *saver) hints(turn int32) {
	hints, given := s.w.Hints[turn]
	if !given {
		return
	}
	if hints.Tenant != "" {
		s.line.text("tenant", hints.Tenant)
	}
	if hints.DeadlineMs > 0 {
		s.line.number("deadline_ms", hints.DeadlineMs)
	}
	if !hints.queues() && (hints.Tenant != "" || hints.DeadlineMs > 0) {
		return
	}
	s.line.integer("priority", int64(hints.Priority))
	s.line.integer("strict_priority", int64(hints.StrictPriority))
	if hints.PolicyClass != "" {
		s.line.text("policy_class", hints.PolicyClass)
	}
}
