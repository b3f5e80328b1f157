package publish

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/zmtp"
)

// TestUnheard: one line says that there is no subscriber to KV events, unless there is one.
func TestUnheard(t *testing.T) {
	for _, listens := range []bool{false, true} {
		var log bytes.Buffer
		w, err := Start(Config{
			WorkerID: 7, Ranks: 2, KVEvents: true, BlockSize: 4, Host: "127.0.0.1", Patience: time.Nanosecond,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if listens { // to the events of one rank, as a frontend of 1.6
			address := w.config.address(w.ranks[1].channel.info.ScopedPort)
			connected := make(chan struct{}, 1)
			sub := zmtp.Subscribe(address, events.KVTopic, slog.New(slog.DiscardHandler),
				func() { connected <- struct{}{} }, func([][]byte) {})
			t.Cleanup(sub.Close)
			<-connected
			for deadline := time.Now().Add(patience); !w.subscribed(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the subscription does not come")
				}
			}
		}
		for range 3 {
			w.Cache(0, []blocks.Change{{Blocks: []blocks.Block{{Hash: 1}}}})
			time.Sleep(time.Microsecond) // longer than the patience
		}
		w.Close()
		if lines, want := strings.Count(log.String(), "nobody has subscribed"),
			map[bool]int{false: 1, true: 0}[listens]; lines != want {
			t.Errorf("listens: %v: got %d lines, want %d: %s", listens, lines, want, log.String())
		}
	}
}
