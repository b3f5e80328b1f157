package workload

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// conversationTrace returns a trace like Mooncake's: each conversation grows by some blocks of 512 tokens from turn to
// turn.
func conversationTrace(rows int) []byte {
	rng := rand.New(rand.NewPCG(1, 0))
	var text bytes.Buffer
	conversations := make([][]int, 200)
	fresh := 0
	for i := range rows {
		ids := &conversations[rng.IntN(len(conversations))]
		if len(*ids) > 60 {
			*ids = nil
		}
		for range 1 + rng.IntN(12) {
			*ids = append(*ids, fresh)
			fresh++
		}
		fmt.Fprintf(&text, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [`, i*30,
			512*len(*ids)-rng.IntN(512), 1+rng.IntN(700))
		for j, id := range *ids {
			if j > 0 {
				text.WriteString(", ")
			}
			fmt.Fprint(&text, id)
		}
		text.WriteString("]}\n")
	}
	return text.Bytes()
}

func BenchmarkLoadMooncake(b *testing.B) {
	trace := conversationTrace(10_000)
	for _, engineBlock := range []int{64, 96} { // 96 does not divide 512
		b.Run(fmt.Sprintf("block_%d", engineBlock), func(b *testing.B) {
			b.SetBytes(int64(len(trace)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := LoadMooncake(bytes.NewReader(trace), "t",
					TraceSpec{TraceBlockSize: 512, EngineBlockSize: engineBlock}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
