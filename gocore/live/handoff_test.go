package live

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/handoff"
	"dynosim/gocore/live/rendezvous"
	"dynosim/gocore/protocol/bootstrap"
	"dynosim/gocore/protocol/wire"
)

// deployment is a prefill and a decode worker with one rank each.
type deployment struct {
	prefill, decode *runner
	source          *handoffs
	destination     *handoffs
	info            wire.Bootstrap
}

func deploy(t testing.TB, change func(*engineargs.Args)) *deployment {
	t.Helper()
	d := &deployment{}
	start := func(role engine.Role, address string) (*runner, *handoffs) {
		args := engineargs.Default()
		args.BlockSize, args.NumGPUBlocks, args.Role = 4, 100, role
		args.Live.Ranks, args.Live.HandoffTimeoutMs = 1, 60_000
		change(&args)
		log := slog.New(slog.DiscardHandler)
		config := rendezvousConfig(&args)
		config.Log = log
		h, err := openHandoffs(&args, address, config)
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(&args, engine.Setup{Role: role}, log)
		r.start()
		t.Cleanup(func() {
			h.close()
			select {
			case <-r.done: // the test has stopped it
			default:
				r.close()
			}
		})
		return r, h
	}
	d.prefill, d.source = start(engine.Prefill, "127.0.0.1:0")
	d.decode, d.destination = start(engine.Decode, "")
	d.info = wire.Bootstrap{Host: "127.0.0.1", Port: uint16(d.source.port())}
	return d
}

// transaction is one request on both workers.
type transaction struct {
	prompt, answer      *request
	source, destination chan error
	leaveSource, leave  context.CancelCauseFunc
	sourceCtx, ctx      context.Context
}

func newTransaction(prompt, output int, seed uint64) *transaction {
	x := &transaction{
		prompt: plan(prompt, 1, seed), answer: plan(prompt, output, seed),
		source: make(chan error, 1), destination: make(chan error, 1),
	}
	x.sourceCtx, x.leaveSource = context.WithCancelCause(context.Background())
	x.ctx, x.leave = context.WithCancelCause(context.Background())
	return x
}

func (d *deployment) begin(prompt, output int, seed uint64) *transaction {
	x := newTransaction(prompt, output, seed)
	d.run(x, handoffPart{d.prefill, x.prompt}, handoffPart{d.decode, x.answer}, prompt)
	return x
}

func (d *deployment) run(x *transaction, from, to rendezvous.Engine, prompt int) {
	id := bootstrap.Identity{HandoffID: uuid.New(), Room: rand.Uint64() >> 1, RequestID: uuid.New()}
	go func() { x.source <- d.source.run(x.sourceCtx, &d.info, id, 0, prompt, from) }()
	go func() { x.destination <- d.destination.run(x.ctx, &d.info, id, 0, prompt, to) }()
}

var disaggregated = map[string]func(*engineargs.Args){
	"vllm": func(*engineargs.Args) {},
	"sglang": func(a *engineargs.Args) {
		a.EngineType,
			a.SGLang.ReferenceQuirks = engineargs.SGLang, false
	},
	"vllm without prefix caching": func(a *engineargs.Args) { a.PrefixCaching = false },
	"only what is missing": func(a *engineargs.Args) {
		a.Transfer = engineargs.TransferArgs{BytesPerToken: 1_000_000, BandwidthGBs: 64, DestinationMissing: true}
	},
}

// TestHandoffs: more requests than either pool holds are handed over, some of them for the same prompt. They get all
// their tokens, and nothing is left of them.
func TestHandoffs(t *testing.T) {
	for name, change := range disaggregated {
		t.Run(name, func(t *testing.T) {
			d := deploy(t, func(a *engineargs.Args) {
				change(a)
				a.NumGPUBlocks, a.SpeedupRatio = 30, 50
			})
			var all []*transaction
			for i := range 40 {
				all = append(all, d.begin(1+i, 5+i%20, uint64(i%7)))
			}
			for i, x := range all {
				if n, failure := finish(t, x.answer); n != len(x.answer.output.tokens) || failure != "" {
					t.Errorf("%d: got %d of %d tokens, %s", i, n, len(x.answer.output.tokens), failure)
				}
				if err := errors.Join(<-x.source, <-x.destination); err != nil || x.prompt.released.Load() != 1 {
					t.Errorf("%d: %v, %d tokens", i, err, x.prompt.released.Load())
				}
			}
			d.checkEmpty(t)
		})
	}
}

// checkEmpty runs requests that need almost all of both pools, and looks for what is left of others.
func (d *deployment) checkEmpty(t *testing.T) {
	t.Helper()
	for side, r := range map[string]*runner{"prefill": d.prefill, "decode": d.decode} {
		large := plan((r.args.NumGPUBlocks-2)*r.args.BlockSize, 1, 1000)
		if n, failure := serve(t, r, large); n != 1 || failure != "" {
			t.Errorf("%s: got %d tokens, %s", side, n, failure)
		}
		r.close()
		if _, _, blocks := r.engine.Load(); blocks != 0 && r.args.EngineType == engineargs.VLLM {
			t.Errorf("%s: %d blocks are in use", side, blocks)
		}
		if len(r.requests) != 0 || r.awaiting != 0 || r.emitting.Len() != 0 {
			t.Errorf("%s: %d requests, %d hand-offs are left", side, len(r.requests), r.awaiting)
		}
		if r.ranks[0].names.Len() > r.args.NumGPUBlocks {
			t.Errorf("%s: %d blocks are named", side, r.ranks[0].names.Len())
		}
	}
}

// TestBrokenHandoffs: whichever side leaves, and whenever, neither side keeps anything.
func TestBrokenHandoffs(t *testing.T) {
	gone := errors.New("gone")
	for how, leave := range map[string]func(*deployment, *transaction){
		"the client of the prefill worker": func(_ *deployment, x *transaction) { x.leaveSource(gone) },
		"the client of the decode worker":  func(_ *deployment, x *transaction) { x.leave(gone) },
		"the prefill worker":               func(d *deployment, _ *transaction) { d.source.close() },
	} {
		for name, change := range disaggregated {
			for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond,
				40 * time.Millisecond} {
				t.Run(how+" of "+name+" after "+after.String(), func(t *testing.T) {
					t.Parallel()
					d := deploy(t, func(a *engineargs.Args) {
						change(a)
						a.SpeedupRatio = 2
						if a.Transfer.BandwidthGBs == 0 { // 40 tokens of 1 MB: 20 ms
							a.Transfer = engineargs.TransferArgs{BytesPerToken: 1_000_000, BandwidthGBs: 2}
						}
					})
					var all []*transaction
					for i := range 6 {
						all = append(all, d.begin(40, 100, uint64(i)))
					}
					time.Sleep(after)
					for _, x := range all {
						leave(d, x)
					}
					for _, x := range all {
						destination := <-x.destination
						var source error
						select {
						case source = <-x.source:
						case <-time.After(time.Second): // it waits for a destination that has never been there
							x.leaveSource(gone)
							source = <-x.source
						}
						if source == nil && destination != nil && !errors.Is(destination, gone) {
							t.Errorf("the destination fails alone: %v", destination)
						}
						if destination == nil { // the request has been handed over
							d.decode.cancel(x.answer)
						}
					}
					d.checkEmpty(t)
				})
			}
		}
	}
}

// What the decode worker can never run fails on both sides, and so does what the prefill worker cannot compute.
func TestHopelessHandoffs(t *testing.T) {
	for name, change := range disaggregated {
		d := deploy(t, func(a *engineargs.Args) {
			change(a)
			if a.Role == engine.Decode {
				a.NumGPUBlocks = 10
			}
		})
		x := d.begin(80, 5, 1)
		if _, failure := finish(t, x.answer); failure == "" {
			t.Errorf("%s: got an answer", name)
		}
		if source, destination := <-x.source, <-x.destination; source == nil || destination == nil {
			t.Errorf("%s: got %v and %v", name, source, destination)
		}
		d.checkEmpty(t)
	}
}

// timed is a handoffPart that records when it is asked for something.
type timed struct {
	handoffPart
	at map[bootstrap.FactKind]time.Time
}

func (t timed) Do(a handoff.Action, tell func(bootstrap.Fact)) {
	t.handoffPart.Do(a, func(f bootstrap.Fact) {
		t.at[f.Kind] = time.Now()
		tell(f)
	})
}

// BenchmarkHandoff hands requests over between idle workers without a transfer time. Its figure is the median time from
// the end of the prefill pass until the decode worker may run the request.
func BenchmarkHandoff(b *testing.B) {
	for _, name := range []string{"vllm", "sglang"} {
		b.Run(name, func(b *testing.B) {
			d := deploy(b, func(a *engineargs.Args) {
				disaggregated[name](a)
				a.NumGPUBlocks, a.SpeedupRatio = 1000, 10
			})
			var spans []time.Duration
			for b.Loop() {
				x := newTransaction(160, 1, uint64(len(spans)))
				from := timed{handoffPart{d.prefill, x.prompt}, map[bootstrap.FactKind]time.Time{}}
				to := timed{handoffPart{d.decode, x.answer}, map[bootstrap.FactKind]time.Time{}}
				d.run(x, from, to, 160)
				if err := errors.Join(<-x.source, <-x.destination); err != nil {
					b.Fatal(err)
				}
				spans = append(spans, to.at[bootstrap.Activated].Sub(from.at[bootstrap.PromptComputed]))
			}
			slices.Sort(spans)
			b.ReportMetric(float64(spans[len(spans)/2].Nanoseconds())/1e3, "us/held-to-active")
			b.ReportMetric(float64(spans[len(spans)*99/100].Nanoseconds())/1e3, "us/p99")
		})
	}
}
