package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/engines/mocker/vllm"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker/intake"
)

// newEngine returns an engine with a delay of 5 ms. A prefill of 64 tokens takes 17.474885 ms, a decode step with 1 to
// 3 blocks in use 5.743296, 5.746593 or 5.749889 ms.
func newEngine(t *testing.T, role engine.Role) *intake.Engine {
	t.Helper()
	args := enginetest.Args(t, `{"worker_type": "`+role.String()+`"}`)
	return intake.New(vllm.New(args, engine.Setup{Role: role}), intake.Delay{Ms: 5}, args.BlockSize)
}

func request(id engine.RequestID, sentMs float64) engine.Request {
	return engine.Request{
		ID: id, Prompt: kvcache.Prompt{PerSegment: 1, Segments: []uint32{uint32(id)}}, PromptTokens: 64,
		OutputTokens: 2, SentMs: sentMs,
	}
}

// TestDelay: B comes while A is computed, and is seen 5 ms later, at the next pass; C comes when the engine has nothing
// to do.
func TestDelay(t *testing.T) {
	e := newEngine(t, engine.Aggregated)
	var got strings.Builder
	sent := []float64{0, 10, 100}
	for now, added := 0.0, 0; added < len(sent) || e.Requests() > 0; {
		for ; added < len(sent) && sent[added] <= now; added++ {
			e.Add(request(engine.RequestID(added), sent[added]))
		}
		if e.Requests() == 0 {
			now = sent[added]
			continue
		}
		pass, alive := e.RunPass(now)
		if !alive {
			t.Fatalf("not alive at %v", now)
		}
		fmt.Fprintf(&got, "%.3f..%.3f admitted %d tokens %d finished %d, %d left\n",
			pass.StartMs, pass.EndMs, len(pass.Admitted), pass.Tokens, len(pass.Finished), len(e.States()))
		now = pass.EndMs
	}
	want := `0.000..5.000 admitted 0 tokens 0 finished 0, 1 left
5.000..28.218 admitted 1 tokens 1 finished 0, 1 left
28.218..51.443 admitted 1 tokens 2 finished 1, 1 left
51.443..57.190 admitted 0 tokens 1 finished 1, 0 left
100.000..105.000 admitted 0 tokens 0 finished 0, 1 left
105.000..128.218 admitted 1 tokens 1 finished 0, 1 left
128.218..133.965 admitted 0 tokens 1 finished 1, 0 left
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// TestDelayOfPrompts: a delay grows with the prompt, and a request with a short prompt does not overtake one with a
// long prompt.
func TestDelayOfPrompts(t *testing.T) {
	args := enginetest.Args(t, `{}`)
	e := intake.New(vllm.New(args, engine.Setup{}), intake.Delay{Ms: 5, TokenMs: 0.25}, args.BlockSize)
	short := request(1, 1)
	short.PromptTokens = 4 // 6 ms, but it waits for the one before
	e.Add(request(0, 0))   // 64 tokens: 5 + 16 ms
	e.Add(short)
	if pass, _ := e.RunPass(1); pass.EndMs != 21 || len(pass.Admitted) != 0 {
		t.Errorf("the pass that waits ends at %v and admits %d", pass.EndMs, len(pass.Admitted))
	}
	if pass, _ := e.RunPass(21); len(pass.Admitted) != 2 {
		t.Errorf("%d requests are admitted", len(pass.Admitted))
	}
}

// TestTurnBack: a request can be taken back on its way, as one that waits for hand-off too.
func TestTurnBack(t *testing.T) {
	e := newEngine(t, engine.Aggregated)
	e.Add(request(0, 0))
	e.Add(request(1, 1))
	e.Cancel(0)
	if pass, _ := e.RunPass(1); e.Requests() != 1 || pass.EndMs != 6 {
		t.Errorf("%d requests, the pass ends at %v", e.Requests(), pass.EndMs)
	}
	source := newEngine(t, engine.Prefill)
	for id := range engine.RequestID(2) {
		r := request(id, 0)
		r.Hold, r.OutputTokens = true, 1
		source.Add(r)
	}
	source.CancelSource(0)
	source.ReleaseSource(1) // before its prompt is computed: then nothing is held
	source.RunPass(0)
	pass, _ := source.RunPass(5)
	if len(pass.Finished) != 1 || len(pass.Held) != 0 || source.Requests() != 0 {
		t.Errorf("finished %v, held %v, %d left", pass.Finished, pass.Held, source.Requests())
	}
}

// TestWork: a pass that only waits computes nothing, and what is on its way is not in the engine's queue.
func TestWork(t *testing.T) {
	e := newEngine(t, engine.Aggregated)
	e.ReportWork()
	e.Add(request(0, 0))
	e.RunPass(0)
	if waiting, running, _ := e.Load(); waiting != 0 || running != 0 || e.Work() != (engine.Work{}) {
		t.Errorf("%d waiting, %d running, %+v", waiting, running, e.Work())
	}
	e.RunPass(5)
	if work := e.Work(); work.Scheduled.PrefillTokens != 64 {
		t.Errorf("%+v", work)
	}
}
