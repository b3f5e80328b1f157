package workload

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"dynosim/gocore/kvcache"
)

// FuzzMooncake reads arbitrary bytes as a trace. The reader must not panic, what it accepts must keep the promises of
// Workload, and reading it twice must give the same.
func FuzzMooncake(f *testing.F) {
	f.Add([]byte(`{"timestamp":1.5,"input_length":6,"output_length":3,"hash_ids":[7,8],"session_id":"s","delay":0}`), uint8(4), uint8(4))
	f.Add([]byte(twoSessions), uint8(6), uint8(4))
	f.Add([]byte("\n\r\n"+twoRows+`{"session_id":"request_3","delay_ms":2,"output_tokens":1,"hash_ids":[18446744073709551615]}`), uint8(3), uint8(8))
	f.Add([]byte(gzipped(f, twoRows)), uint8(8), uint8(4))
	f.Add([]byte(zstandard(f, twoRows)), uint8(1), uint8(1))
	f.Add([]byte(`{"hash_ids":[1,2`), uint8(4), uint8(4))
	f.Fuzz(func(t *testing.T, trace []byte, traceBlock, engineBlock uint8) {
		spec := TraceSpec{TraceBlockSize: int(traceBlock) + 1, EngineBlockSize: int(engineBlock) + 1}
		w, err := LoadMooncake(bytes.NewReader(trace), "t", spec)
		again, errAgain := LoadMooncake(bytes.NewReader(trace), "t", spec)
		if !reflect.DeepEqual(w, again) || (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("read twice: %v and %v", err, errAgain)
		}
		if err != nil {
			return
		}
		checkWorkload(t, w, spec.EngineBlockSize)
		if w.Schedule(false, 3) == nil {
			checkTimes(t, w)
		}
	})
}

// checkWorkload checks that the sessions are chains that cover every turn once, and that the turns are sound.
func checkWorkload(t *testing.T, w *Workload, engineBlock int) {
	t.Helper()
	covered := 0
	for s := range w.Sessions {
		row := int32(-1)
		for turn, index := w.Sessions[s].First, int32(0); ; index++ {
			at := &w.Turns[turn]
			if at.Session != int32(s) || at.Index != index || at.Row <= row {
				t.Fatalf("session %d: turn %d is %+v", s, turn, at)
			}
			row = at.Row
			covered++
			if at.Next == 0 {
				break
			}
			turn = at.Next
		}
	}
	if covered != len(w.Turns) || covered == 0 {
		t.Fatalf("sessions cover %d of %d turns", covered, len(w.Turns))
	}
	for i := range w.Turns {
		turn := &w.Turns[i]
		if turn.InputTokens < 1 || turn.OutputTokens < 1 || !isDuration(turn.DelayMs) || turn.Index == 0 && turn.DelayMs != 0 ||
			i > 0 && turn.Row <= w.Turns[i-1].Row {
			t.Fatalf("turn %d: %+v", i, turn)
		}
		for _, id := range fullBlocks(turn, engineBlock) {
			if id >= kvcache.PrivateIDs {
				t.Fatalf("turn %d: block %d is private", i, id)
			}
		}
	}
}

func checkTimes(t *testing.T, w *Workload) {
	t.Helper()
	earliest := math.Inf(1)
	for _, s := range w.Sessions {
		earliest = min(earliest, s.StartMs)
	}
	if earliest != 0 {
		t.Fatalf("the first session starts at %v", earliest)
	}
}
