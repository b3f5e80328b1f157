package job

import (
	"fmt"
	"math"

	"dynosim/gocore/planner"
	"dynosim/gocore/strictjson"
)

// sampler tells the caller of a run how its workers are, at equal distances of simulated time. It is a planner that
// changes nothing. A sample is a question ([Monitor.Ask]), to which the answer is an empty object:
//
//	{"planner": "telemetry", "sample": {...}}
type sampler struct {
	ask     func(question string) (answer string, err error)
	everyMs float64
	taken   int
}

// Wants implements [planner.Planner].
func (*sampler) Wants() planner.Wants { return planner.Wants{Gauges: true} }

// InitialTickMs implements [planner.Planner].
func (*sampler) InitialTickMs() (float64, error) { return 0, nil }

// OnTick implements [planner.Planner].
func (s *sampler) OnTick(t *planner.Tick) (planner.Decision, error) {
	kind := "periodic"
	if s.taken == 0 {
		kind = "baseline"
	}
	err := s.tell(kind, t)
	return planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged,
		NextMs: float64(float64(s.taken) * s.everyMs)}, err
}

// End implements [planner.Ender].
func (s *sampler) End(t *planner.Tick) error { return s.tell("final", t) }

func (s *sampler) tell(kind string, t *planner.Tick) error {
	question := fmt.Appendf(nil, `{"planner":"telemetry","sample":{"sample_ordinal":%d,"kind":%q`, s.taken, kind)
	question = appendReal(append(question, `,"interval_start_ms":`...), t.Traffic.SinceMs)
	question = appendReal(append(question, `,"sampled_at_ms":`...), t.NowMs)
	question = append(appendWindow(append(question, `,"traffic":`...), &t.Traffic), ',')
	pools := []struct {
		name  string
		state *planner.Pool
	}{{"prefill", &t.Prefill}, {"decode", &t.Decode}}
	for _, pool := range pools {
		question = appendGauges(fmt.Appendf(question, `"%s_scheduler_metrics":`, pool.name), pool.state.Gauges)
		question = fmt.Appendf(question, `,"router_pending_%s_requests":%d,`, pool.name, pool.state.Held)
	}
	for _, pool := range pools {
		active := make([]int, len(pool.state.Gauges))
		for i, g := range pool.state.Gauges {
			active[i] = g.Worker
		}
		for _, ids := range []struct {
			state string
			ids   []int
		}{{"active", active}, {"starting", pool.state.StartingIDs}, {"draining", pool.state.DrainingIDs}} {
			question = strictjson.AppendInts(fmt.Appendf(question, `"%s_%s_ids":`, ids.state, pool.name), ids.ids)
			question = append(question, ',')
		}
	}
	question[len(question)-1] = '}'
	s.taken++
	_, err := asked(s.ask, string(append(question, '}')))
	return err
}

// appendWindow appends what happened since the sample before.
func appendWindow(dst []byte, t *planner.Traffic) []byte {
	dst = appendReal(append(dst, `{"duration_s":`...), t.DurationS())
	dst = fmt.Appendf(dst, `,"arriving_requests":%d,"completed_requests":%d`, t.Arrived, t.Requests)
	dst = appendMeans(dst, t, "avg_router_kv_hit_rate")
	return fmt.Appendf(dst, `,"ttft_count":%d,"itl_count":%d,"router_kv_hit_rate_count":%d}`, t.TTFTs, t.ITLs, t.Hits)
}

func appendGauges(dst []byte, gauges []planner.Gauge) []byte {
	dst = append(dst, '[')
	for i, g := range gauges {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"worker_id":%d,"dp_rank":0,"active_blocks":%d,"total_blocks":%d,"active_cache_usage":`,
			g.Worker, g.ActiveBlocks, g.Blocks)
		dst = appendReal(dst, float64(g.ActiveBlocks)/math.Max(float64(g.Blocks), 1))
		dst = fmt.Appendf(dst, `,"running_requests":%d,"waiting_requests":%d}`, g.Running, g.Waiting)
	}
	return append(dst, ']')
}
