package intake_test

import (
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/engines/vllm"
	"dynosim/gocore/worker/intake"
)

// TestRanks: while requests are on their way, no rank has done anything; then each has its part of the passes.
func TestRanks(t *testing.T) {
	args := enginetest.Args(t, `{"scheduler": "vllm", "dp_size": 2, "dp_routing": "round_robin"}`)
	var ranks engine.Ranked = intake.NewRanked(vllm.NewGroup(args, engine.Setup{}), intake.Delay{Ms: 5}, args.BlockSize)
	ranks.ObserveRanks()
	ranks.ReportWork()
	on := ranks.ChooseRank(0)
	first, second := request(1, 0), request(2, 0)
	first.OnRank, second.OnRank = on+1, 2
	ranks.Add(first)
	ranks.Add(second)
	if on != 0 {
		t.Errorf("got rank %d", on)
	}
	for nowMs, admitted := 0.0, 0; ranks.Requests() > 0; {
		pass, _ := ranks.RunPass(nowMs)
		if nowMs == 0 && pass.EndMs != 5 {
			t.Errorf("the first pass ends at %v ms", pass.EndMs)
		}
		nowMs = pass.EndMs
		admitted += len(pass.Admitted)
		for i := range 2 {
			part, work := ranks.RankPass(i), ranks.RankWork(i)
			if has := work.Scheduled.PrefillRequests+work.Scheduled.DecodeRequests > 0; has != (part.Scheduled > 0) {
				t.Errorf("at %v ms rank %d has work %t, and %d requests", nowMs, i, has, part.Scheduled)
			}
			if _, running, _ := ranks.RankLoad(i); admitted < 2 && running+part.Scheduled > 0 {
				t.Errorf("at %v ms rank %d runs", nowMs, i)
			}
		}
	}
	if lost := ranks.Lockstep(); lost.PassMs == 0 || lost.WaitMs != 0 {
		t.Errorf("got %+v, want no waiting, as both ranks have the same", lost)
	}
}
