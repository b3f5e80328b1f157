package deployment

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"dynosim/gocore/server/cluster"
)

// file is a file in memory.
type file struct {
	mu sync.Mutex
	bytes.Buffer
	fails  error
	closed bool
}

func (f *file) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return 0, f.fails
	}
	return f.Buffer.Write(b)
}

func (f *file) Close() error {
	f.closed = true
	return nil
}

// recorded is a row of a recording.
type recorded struct {
	Timestamp float64 `json:"timestamp"`
	Session   string  `json:"session_id"`
	Input     int     `json:"input_length"`
	Output    int     `json:"output_length"`
	Hashes    []int   `json:"hash_ids"`
	Tokens    []int   `json:"output_token_ids"`
	Request   string  `json:"answer_id"`
	Outcome   string  `json:"outcome"`
	Cached    int     `json:"cached_tokens"`
	TTFT      float64 `json:"ttft_ms"`
}

func rowsOf(t *testing.T, text string) (rows []recorded) {
	t.Helper()
	for line := range strings.Lines(text) {
		var r recorded
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		rows = append(rows, r)
	}
	return rows
}

// TestRecording: rows come in the order of arrival; equal blocks have equal numbers, also those of answers.
func TestRecording(t *testing.T) {
	var to file
	d := Start(newCluster(t, arguments, nil), NewRecorder(&to, 16, slog.New(slog.DiscardHandler)),
		slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	tokens := make([]uint32, 60)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	ask := func(id string, prompt, output int) (*Call, chan struct{}) {
		wake := make(chan struct{}, 1)
		c := NewCall(cluster.Request{PromptTokens: prompt, OutputTokens: output,
			Keys: cluster.Keys(tokens[:prompt+output], 16, "")}, wake)
		c.Label = Label{ID: id, Session: "s"}
		if !d.Submit(c) {
			t.Fatal("refused")
		}
		return c, wake
	}
	slow, slowly := ask("first", 40, 10) // a block of 16 tokens begins in the prompt and ends in the answer
	fast, quickly := ask("second", 20, 1)
	end(t, fast, quickly, 1)
	end(t, slow, slowly, 10)
	again, wake := ask("third", 50, 2)
	end(t, again, wake, 2)
	d.Close()
	rows := rowsOf(t, to.String())
	if len(rows) != 3 || rows[0].Request != "first" || rows[1].Request != "second" || rows[2].Request != "third" ||
		!to.closed {
		t.Fatalf("got %s", to.String())
	}
	first, third := rows[0], rows[2]
	if first.Input != 40 || first.Output != 10 || first.Session != "s" || first.Outcome != "completed" ||
		first.TTFT <= 0 || len(first.Hashes) != 3 || len(first.Tokens) != 10 {
		t.Errorf("got %+v", first)
	}
	if first.Tokens[7] != first.Hashes[2] || first.Tokens[8] == first.Hashes[2] || first.Tokens[8] != first.Tokens[9] {
		t.Errorf("the answer of the first call is in other blocks: %+v", first)
	}
	if third.Hashes[2] != first.Hashes[2] || third.Hashes[3] == first.Tokens[8] || third.Cached != 48 {
		t.Errorf("got %+v after %+v", third, first)
	}
	if rows[1].Hashes[0] != first.Hashes[0] || rows[1].Hashes[1] == first.Hashes[1] {
		t.Errorf("got %+v", rows[1])
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].Timestamp < rows[i-1].Timestamp {
			t.Errorf("row %d is earlier than the one before", i)
		}
	}
}

// TestRecordingOfTheGivenUp: a call that was given up has the tokens that it had got, and one that is open at the end
// is there.
func TestRecordingOfTheGivenUp(t *testing.T) {
	var to file
	slowly := strings.Replace(arguments, "}", `,"speedup_ratio":0.01}`, 1)
	d := Start(newCluster(t, slowly, nil), NewRecorder(&to, 16, slog.New(slog.DiscardHandler)),
		slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	given, _ := newCall(100, 50)
	open, _ := newCall(100, 50)
	large, wake := newCall(16*300, 5)
	for _, c := range []*Call{large, given, open} {
		if !d.Submit(c) {
			t.Fatal("refused")
		}
	}
	end(t, large, wake, 5)
	given.Cancel()
	d.Close()
	rows := rowsOf(t, to.String())
	if len(rows) != 3 {
		t.Fatalf("got %s", to.String())
	}
	if rows[0].Outcome != "failed" || rows[0].Input != 4800 {
		t.Errorf("got %+v", rows[0])
	}
	for _, r := range rows[1:] {
		if r.Output > 50 || len(r.Tokens) != r.Output || r.Outcome == "completed" {
			t.Errorf("got %+v", r)
		}
	}
}

// TestRecordingFails: a file that cannot be written holds up no call, and the log says so.
func TestRecordingFails(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	d := Start(newCluster(t, arguments, nil), NewRecorder(&file{fails: errors.New("no space left")}, 16, log), log,
		func(err error) { t.Error(err) })
	for range 10 {
		c, wake := newCall(100, 2)
		if !d.Submit(c) {
			t.Fatal("refused")
		}
		end(t, c, wake, 2)
	}
	d.Close()
	if n := strings.Count(said.String(), "the recording is incomplete"); n != 1 ||
		!strings.Contains(said.String(), "no space left") {
		t.Errorf("got %s", said.String())
	}
}
