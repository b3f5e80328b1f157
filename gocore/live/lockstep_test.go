package live

import (
	"log/slog"
	"math"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

var groups = map[string]func(*engineargs.Args){
	"vllm": func(a *engineargs.Args) {
		a.Scheduler, a.VLLM.Release, a.VLLM.RoundRobin = engineargs.VLLMOwn, engineargs.VLLM033, true
		a.VLLM.PrefillInterval = 1
	},
	"vllm, asynchronous": func(a *engineargs.Args) {
		a.Scheduler, a.VLLM.Release, a.VLLM.RoundRobin = engineargs.VLLMOwn, engineargs.VLLM033, true
		a.VLLM.PrefillInterval, a.VLLM.Async = 1, true
	},
	"sglang": engines["sglang by its own rules"],
}

// newGroup returns a runner of three ranks that does not run yet.
func newGroup(change func(*engineargs.Args)) *runner {
	args := engineargs.Default()
	args.BlockSize, args.NumGPUBlocks, args.SpeedupRatio = 4, 100, 20
	args.Ranks, args.Live.Ranks = 3, 3
	args.SGLang.ChunkedPrefillSize = 96
	change(&args)
	return newRunner(&args, engine.Setup{}, slog.New(slog.DiscardHandler))
}

// planRanked plans a request for a rank that its router has chosen, from 1.
func planRanked(prompt, output, onRank int) *request {
	q := plan(prompt, output, uint64(prompt))
	q.onRank = onRank
	return q
}

// TestCommonPasses: ranks have the passes that they have offline, each as long for all that take part as for the
// slowest. Requests without a rank go to the ranks in turn.
func TestCommonPasses(t *testing.T) {
	for name, change := range groups {
		mix := func() []*request {
			return []*request{planRanked(40, 30, 3), planRanked(300, 4, 1), planRanked(50, 12, 0), planRanked(9, 3, 0)}
		}
		want := offlinePasses(newGroup(change), mix())
		r, requests := newGroup(change), mix()
		for _, q := range requests {
			r.submit(q)
		}
		seen := []*recorder{{}, {}, {}}
		r.start([]Observer{seen[0]}, []Observer{seen[1]}, []Observer{seen[2]})
		for i, on := range []int{2, 0, 0, 1} {
			if n, failure := finish(t, requests[i]); n != len(requests[i].output.tokens) || failure != "" {
				t.Errorf("%s: got %d tokens, %s", name, n, failure)
			}
			if requests[i].rank.Load() != r.ranks[on] {
				t.Errorf("%s: request %d is not on rank %d", name, i, on)
			}
		}
		r.close()
		for i, o := range seen {
			if !equalMs(o.ms, want[i]) {
				t.Errorf("%s: rank %d has passes of %v ms, want %v", name, i, o.ms, want[i])
			}
			if o.stored == 0 || o.load.Running+o.load.Waiting+o.load.UsedBlocks > 0 {
				t.Errorf("%s: rank %d: %+v", name, i, o)
			}
		}
		if len(r.requests) != 0 || r.emitting.Len() != 0 {
			t.Errorf("%s: left are %d requests, %d emitting", name, len(r.requests), r.emitting.Len())
		}
	}
}

// offlinePasses runs requests that are all there from the start, and returns how long the passes of each rank are.
func offlinePasses(r *runner, requests []*request) [][]float64 {
	for _, q := range requests {
		r.engine.Add(r.enter(q, 0))
	}
	found := make([][]float64, len(r.ranks))
	for nowMs := 0.0; r.engine.Requests() > 0; {
		pass, _ := r.engine.RunPass(nowMs)
		nowMs = pass.EndMs
		for i := range found {
			if r.lockstep.RankPass(i).Scheduled > 0 {
				found[i] = append(found[i], pass.EndMs-pass.StartMs)
			}
		}
	}
	return found
}

func equalMs(a, b []float64) bool {
	for i := range a {
		if i < len(b) && math.Abs(a[i]-b[i]) > 1e-6 {
			return false
		}
	}
	return len(a) == len(b) && len(a) > 0
}

// TestExpertsOfLiveRanks: durations that are asked for tell expert layers apart if the predictor does.
func TestExpertsOfLiveRanks(t *testing.T) {
	args := engineargs.Default()
	for _, knows := range []bool{false, true} {
		ask := func([]timing.Question) ([]timing.Answer, error) { return nil, nil }
		model := EngineSetup(&args, nil, Predictor{ask, knows}, 0, 0).Model
		if got := model.(timing.ExpertModel).KnowsExperts(); got != knows {
			t.Errorf("got %t, want %t", got, knows)
		}
	}
}
