package journal

import (
	"bytes"
	"strconv"
	"testing"

	"dynosim/gocore/engine"
)

// TestBound: a part of a live journal keeps no more than its share, closes what is open then, and says so.
func TestBound(t *testing.T) {
	write := func(requests, mostBytes int) (size int, full bool) {
		j := New(Config{
			Timeline: true, Live: true, Ranks: 1, MostBytes: mostBytes,
			Name: func(id engine.RequestID) string { return strconv.Itoa(int(id)) },
		})
		part := j.Part(0)
		for i := range requests {
			id, ms := engine.RequestID(i+1), float64(10*i)
			part.Arrived(engine.Request{ID: id, PromptTokens: 10, OutputTokens: 2}, ms)
			part.Joined(engine.Aggregated, 0, id, ms)
			part.Pass(engine.Aggregated, 0, nil, &engine.Pass{
				StartMs: ms, EndMs: ms + 5, Scheduled: 1, Tokens: 1, Started: []engine.TokenRun{{ID: id}},
				Finished: []engine.RequestID{id},
				Parts: &engine.Parts{Joined: []engine.RequestID{id},
					Prompts: []engine.PromptShare{{ID: id, Tokens: 10}}},
			}, nil)
		}
		j.Merge([]*Journal{part})
		j.Close()
		var out bytes.Buffer
		if err := j.WriteTimeline(&out, nil, nil); err != nil {
			t.Fatal(err)
		}
		return out.Len(), j.Full()
	}
	whole, full := write(1000, 0)
	if full || whole < 100_000 {
		t.Errorf("without a limit: %d bytes, full %t", whole, full)
	}
	if cut, full := write(1000, 20_000); !full || cut > 30_000 || cut < 20_000 {
		t.Errorf("with a limit: %d bytes, full %t", cut, full)
	}
	if none, full := write(0, 20_000); full || none > 1000 {
		t.Errorf("nothing: %d bytes, full %t", none, full)
	}
}
