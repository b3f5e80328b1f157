package publish

import (
	"log/slog"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/events"
)

// BenchmarkPass measures what a pass costs the engine loop: a stored block now and then, its work, its load. Routers
// subscribe to KV events and loads, and hardly any to the work.
func BenchmarkPass(b *testing.B) {
	for _, subscribed := range []bool{false, true} {
		name := "no subscriber"
		if subscribed {
			name = "a router listens"
		}
		b.Run(name, func(b *testing.B) {
			w, err := Start(Config{WorkerID: 5, Ranks: 1, KVEvents: true, BlockSize: 2, Host: "127.0.0.1",
				Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			if subscribed {
				hashless := []blocks.Change{{Blocks: []blocks.Block{{Hash: 1}}}}
				drain(subscribe(b, w.channelOf(events.KVTopic, 0).Port, events.KVTopic,
					func() { w.Cache(0, hashless) }))
				used := 0
				drain(subscribe(b, w.channelOf(events.LoadTopic, 0).Port, events.LoadTopic,
					func() { used++; w.Load(0, used) }))
			}
			var work engine.Work
			for i := 0; b.Loop(); i++ {
				if i%16 == 0 {
					w.Cache(0, []blocks.Change{{Blocks: []blocks.Block{{Hash: uint64(i % 100_000), TokensHash: 7,
						New: i < 100_000}}}})
				}
				w.Pass(0, work, 0.01)
				w.Load(0, i)
			}
		})
	}
}

func drain(heard <-chan [][]byte) {
	go func() {
		for range heard {
		}
	}()
}
