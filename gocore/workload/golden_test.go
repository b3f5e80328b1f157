package workload

import (
	"cmp"
	"dynosim/gocore/scripttest"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs testdata/*.txt. -rewrite writes the results anew.
//
//	load FORMAT KEY=VALUE...   reads the rows that follow and shows the turns: session.index, line, start or delay,
//	                           tokens in and out, ids of the full blocks of the prompt; "+" blocks of the output that
//	                           have one; "after" the requests it waits for; what became of requests that cannot be
//	                           replayed as they are
//	serve FORMAT KEY=VALUE...  releases them and shows which was sent when, every request taking 2 ms; those that reject
//	                           lists (by line) are rejected
//
//	save FORMAT KEY=VALUE...   shows the file that Save writes, and how it is to be read
//	convert [agentic]          converts the recording that follows
//
// Keys: trace_block_size and engine_block_size (both 4 if not given), speedup, concurrency, ratio, groups, seed,
// reject. A line "-- FILE" begins another file.
func TestGolden(t *testing.T) {
	scripttest.Run(t, "testdata", golden)
}

func golden(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "convert" {
		var out strings.Builder
		c, err := ConvertDynamo(&out, sources(d.Input), d.HasArg("agentic"), nil)
		if err != nil {
			return fmt.Sprintf("error: %v\n", err)
		}
		return out.String() + c.String()
	}
	format, known := ParseFormat(d.CmdArgs[0].Key)
	if !known {
		t.Fatalf("%s: no format %q", d.Pos, d.CmdArgs[0].Key)
	}
	number := func(key string, otherwise float64) float64 {
		for _, arg := range d.CmdArgs[1:] {
			if arg.Key == key {
				x, err := strconv.ParseFloat(arg.Vals[0], 64)
				if err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
				return x
			}
		}
		return otherwise
	}
	w, err := Load(format, sources(d.Input), TraceSpec{
		TraceBlockSize:    int(number("trace_block_size", map[bool]float64{true: 4}[format < Dynamo])),
		EngineBlockSize:   int(number("engine_block_size", 4)),
		SharedPrefixRatio: number("ratio", 0),
		NumPrefixGroups:   int(number("groups", 0)),
		Seed:              uint64(number("seed", 0)),
	})
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	if d.Cmd == "save" {
		var out strings.Builder
		how, err := w.Save(&out, int(number("engine_block_size", 4)))
		if err != nil {
			return fmt.Sprintf("error: %v\n", err)
		}
		return fmt.Sprintf("%s%v, trace_block_size %d\n",
			strings.ReplaceAll("\n"+out.String(), "\n\n", "\n(blank)\n")[1:], how.Format, how.TraceBlockSize)
	}
	concurrency := int(number("concurrency", 0))
	if d.Cmd == "load" {
		lines := describeAll(w, int(number("engine_block_size", 4)))
		for _, note := range w.Notes.Imported {
			lines = append(lines, note.String())
		}
		return strings.Join(lines, "\n") + "\n"
	}
	if err := w.Schedule(concurrency > 0, number("speedup", 1)); err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	rejected := map[int32]bool{}
	for _, arg := range d.CmdArgs {
		if arg.Key == "reject" {
			for _, line := range arg.Vals {
				n, err := strconv.Atoi(line)
				if err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
				rejected[int32(n)] = true
			}
		}
	}
	return strings.Join(served(w, concurrency, rejected, int(number("engine_block_size", 4))), "\n") + "\n"
}

// sources splits text at lines "-- FILE"; without such lines the file is t.jsonl.
func sources(text string) []Source {
	if !strings.HasPrefix(text, "-- ") {
		return []Source{{Name: "t.jsonl", Reader: strings.NewReader(text)}}
	}
	var all []Source
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, _ := strings.Cut(part, "\n")
		all = append(all, Source{Name: name, Reader: strings.NewReader(content)})
	}
	return all
}

// describeAll shows the turns as describe does, and what only some formats have.
func describeAll(w *Workload, engineBlock int) []string {
	lines := make([]string, len(w.Turns))
	for i := range w.Turns {
		turn := &w.Turns[i]
		session := &w.Sessions[turn.Session]
		when := fmt.Sprintf("+%v", turn.DelayMs)
		if waits := w.WaitFor != nil && len(w.WaitFor[i]) > 0; session.First == int32(i) && !waits {
			when = "@-"
			if session.Timed {
				when = fmt.Sprintf("@%v", session.StartMs)
			}
		}
		lines[i] = fmt.Sprintf("%s.%d %s %d %s %s", w.SessionName(int32(i)), turn.Index, cmp.Or(w.unit, "line"),
			turn.Row+1, when, tokensAndBlocks(turn, engineBlock))
		if w.WaitFor != nil && len(w.WaitFor[i]) > 0 {
			var names []string
			for _, earlier := range w.WaitFor[i] {
				names = append(names, w.RequestIDs[earlier])
			}
			lines[i] += " after " + strings.Join(names, ", ")
		}
	}
	return lines
}

func tokensAndBlocks(turn *Turn, engineBlock int) string {
	text := fmt.Sprintf("%d->%d %v", turn.InputTokens, turn.OutputTokens, fullBlocks(turn, engineBlock))
	if full := turn.InputTokens / engineBlock; turn.NamedBlocks > full {
		text += fmt.Sprintf("+%v", turn.Prompt.AppendBlocks(nil, full, turn.NamedBlocks))
	}
	return text
}

// served lists the turns as they are sent; each takes 2 ms.
func served(w *Workload, maxSessions int, rejected map[int32]bool, engineBlock int) []string {
	d := NewDriver(w, maxSessions)
	var seen []string
	drive(d, 2, func(turn int32, arrivalMs float64) {
		line := w.Turns[turn].Row + 1
		seen = append(seen, fmt.Sprintf("%v %s.%d line %d %s", arrivalMs, w.SessionName(turn), w.Turns[turn].Index,
			line,
			tokensAndBlocks(d.Turn(turn), engineBlock)))
	}, func(turn int32) bool { return rejected[w.Turns[turn].Row+1] })
	return seen
}
