package serve

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dynosim/gocore/live/freeport"
	"dynosim/gocore/live/publish/eventstest"
	"dynosim/gocore/live/publish/zmtp"
)

// served runs a server until the test ends.
func served(t *testing.T, members string) {
	t.Helper()
	stop, ended := NewStop(), make(chan error, 1)
	go func() { ended <- Run(describe(t, members), stop, func(string) (string, error) { return "", io.EOF }) }()
	t.Cleanup(func() {
		stop.Kill()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// asked posts to a server until it answers 200, and returns the answer.
func asked(t *testing.T, port int, path, body string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d%s", port, path), "application/json",
			bytes.NewBufferString(body))
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return string(text)
			}
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// heard subscribes to the KV events at a port. The channel has the batches.
func heard(t *testing.T, port int) <-chan eventstest.Batch {
	t.Helper()
	batches := make(chan eventstest.Batch, 10_000)
	address, log := "127.0.0.1:"+strconv.Itoa(port), slog.New(slog.DiscardHandler)
	sub := zmtp.Subscribe(address, "", log, func() {}, func(frames [][]byte) {
		b, err := eventstest.Native(frames[2])
		if err != nil {
			t.Error(err)
		}
		batches <- b
	})
	t.Cleanup(sub.Close)
	return batches
}

// awaitEvents computes prompts on a server until the events of one come, so that no later ones are lost because the
// server has not read the subscription yet. It ends with an empty cache, all events of which have been received.
func awaitEvents(t *testing.T, port int, batches <-chan eventstest.Batch) {
	t.Helper()
	for probe := 0; len(batches) == 0; probe++ {
		asked(t, port, "/v1/completions", fmt.Sprintf(`{"prompt": "%07d", "max_tokens": 1}`, probe))
		time.Sleep(10 * time.Millisecond)
	}
	asked(t, port, "/reset_prefix_cache", "")
	for !nextBatch(t, batches).Events[0].Removed {
		continue
	}
}

// nextBatch waits for a batch of events.
func nextBatch(t *testing.T, batches <-chan eventstest.Batch) eventstest.Batch {
	t.Helper()
	select {
	case b := <-batches:
		return b
	case <-time.After(time.Minute):
		t.Fatal("no KV events")
		return eventstest.Batch{}
	}
}

// TestRankPorts: each rank is a server of its own, with its own KV events: prompts that are stored, with their tokens,
// and an emptied cache.
func TestRankPorts(t *testing.T) {
	first := freeport.Ports(t, 4)
	served(t, fmt.Sprintf(`, "http_port": %d, "data_parallel_size": 2, "data_parallel_ports": true, `+
		`"zmq_kv_events_ports": "%d", "block_size": 4, "speedup_ratio": 1000`,
		first, first+2))
	for rank := range 2 {
		asked(t, first+rank, "/v1/completions", `{"prompt": "x", "max_tokens": 1}`) // both serve
	}
	hears := [2]<-chan eventstest.Batch{heard(t, first+2), heard(t, first+3)}
	for rank, batches := range hears {
		awaitEvents(t, first+rank, batches)
	}
	for rank := range 2 {
		text := "ABCDEFGH" + strconv.Itoa(rank)
		for !strings.Contains(asked(t, first+rank, "/v1/completions", `{"prompt": "`+text+`", "max_tokens": 1}`),
			`"cached_tokens":8`) {
			continue // the first time they are computed
		}
		b := nextBatch(t, hears[rank])
		if len(b.Events) != 1 || b.DPRank != uint64(rank) {
			t.Fatalf("rank %d: got %+v", rank, b)
		}
		e := b.Events[0]
		want := []uint32{256, 'A', 'B', 'C', 'D', 'E', 'F', 'G'} // prompts begin with a token of their own
		if e.Removed || e.HasParent || !slices.Equal(e.Tokens, want) || len(e.Hashes) != 2 || e.BlockSize != 4 {
			t.Errorf("rank %d: got %+v, want the tokens %v", rank, e, want)
		}
		asked(t, first+rank, "/reset_prefix_cache", "")
		gone := nextBatch(t, hears[rank]).Events[0]
		slices.Sort(gone.Hashes)
		if slices.Sort(e.Hashes); !gone.Removed || !slices.Equal(gone.Hashes, e.Hashes) {
			t.Errorf("rank %d: got %+v, want that %v are gone", rank, gone, e.Hashes)
		}
	}
	for _, batches := range hears {
		if len(batches) > 0 {
			t.Errorf("more events: %+v", <-batches)
		}
	}
}

// TestEventPorts: the ports of all workers of a server with several.
func TestEventPorts(t *testing.T) {
	for _, test := range []struct{ members, want string }{
		{`, "zmq_kv_events_ports": "20080"`, ""},
		{`, "num_workers": 2, "zmq_kv_events_ports": "20080"`,
			"zmq_kv_events_ports: must have exactly num_workers (2) ports, got 1"},
		{`, "num_workers": 2, "data_parallel_size": 4, "zmq_kv_events_ports": "20080,20090"`, ""},
		{`, "num_prefill_workers": 2, "num_decode_workers": 1, "zmq_kv_events_ports": "20080,20090"`, ""},
		{`, "zmq_replay_ports": "20080"`, "zmq_replay_ports: requires zmq_kv_events_ports"},
		{`, "zmq_kv_events_ports": "20080", "enable_prefix_caching": false`,
			"there are no KV events without enable_prefix_caching"},
		{`, "zmq_kv_events_ports": "20080", "extra_engine_args": "{\"scheduler\": \"vllm\", \"dp_size\": 2, ` +
			`\"block_size\": 16}"`, "ranks that run their passes together"},
		{`, "data_parallel_ports": true`, "data_parallel_ports: got true, want data_parallel_size of 2 or more"},
		{`, "data_parallel_ports": true, "data_parallel_size": 2, "num_workers": 2`,
			"want one worker, whose ranks are the servers"},
		{`, "data_parallel_ports": true, "data_parallel_size": 9, "http_port": 65530`,
			"http_port: got 65530, want at most 65527 for 9 ranks"},
		{`, "data_parallel_ports": true, "data_parallel_size": 2, "record": "r"`, "want record left out"},
	} {
		_, err := parseServer(describe(t, test.members))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.members, err, test.want)
		}
	}
}
