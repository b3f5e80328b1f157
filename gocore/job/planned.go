package job

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"dynosim/gocore/planner"
	"dynosim/gocore/strictjson"
)

// scaling is what changes the number of workers of a run, if anything does.
type scaling struct {
	asks       bool                // a planner of the caller
	stock      *stockPlanner       // nil without planner_config
	autoscaler *planner.Autoscaler // nil if there is none
	sampleMs   float64             // between samples of telemetry, 0 for none
	log        string              // path of a file for the ticks, "" for none
	ticks      *tickLog            // while the file is open
}

// isPlanned reports whether something changes the number of workers.
func isPlanned(o *strictjson.Object) bool {
	return o.Bool("planner") || o.Given("planner_config") || o.Given("autoscaler")
}

func parseScaling(o *strictjson.Object, d deployment) (scaling, error) {
	s := scaling{asks: o.Bool("planner"), stock: parseStock(o), sampleMs: o.Float("telemetry_options"),
		log: o.Text("planner_log")}
	if err := checkPlanners(o); err != nil {
		return s, err
	}
	if s.log != "" && !isPlanned(o) {
		return s, &strictjson.FieldError{Field: "planner_log", Got: o.Shown("planner_log"),
			Want: "planner, planner_config or autoscaler with it"}
	}
	if isPlanned(o) && o.Given("router_decisions") {
		return s, &strictjson.FieldError{Field: "router_decisions", Got: o.Shown("router_decisions"),
			Want: "it left out in a run whose workers change"}
	}
	if !o.Given("autoscaler") {
		return s, nil
	}
	var err error
	if s.autoscaler, err = planner.ParseAutoscaler(o.Text("autoscaler"), d.disaggregated); err != nil {
		return s, fmt.Errorf("autoscaler: %w", err)
	}
	return s, nil
}

// warnings returns those of a planner that is about to begin.
func (s *scaling) warnings() []string {
	if s.stock == nil {
		return nil
	}
	return s.stock.warnings
}

// planner makes the planner of a run, nil if the number of workers stays.
func (s *scaling) planner(m *Monitor, twoPools bool) planner.Planner {
	var p planner.Planner
	switch {
	case s.asks || s.stock != nil:
		p = askedPlanner{m.Ask}
	case s.autoscaler != nil:
		p = s.autoscaler
	default:
		return nil
	}
	if s.ticks != nil {
		p = loggedPlanner{p, s.ticks}
	}
	return toldPlanner{p, &m.scaling, twoPools}
}

// sampler makes what takes samples of a run, nil if nothing does.
func (s *scaling) sampler(m *Monitor) planner.Planner {
	if s.sampleMs == 0 {
		return nil
	}
	return &sampler{ask: m.Ask, everyMs: s.sampleMs}
}

// A planner of the caller answers questions of the run (Monitor.Ask), which are JSON objects with the key "planner"; it
// comes first, as the caller tells questions for planners from others by it:
//
//	{"planner": "initial_tick_ms"}         -> {"initial_tick_ms": 5000.0}
//	{"planner": "on_tick", "tick": {...}}  -> {"target_prefill": null, "target_decode": 3, "next_tick_ms": 10000.0}
//
// Numbers that are not finite are words, as in all descriptions of runs. An answer {"failed": true} ends the run: the
// caller knows why.

// errPlanner ends a run whose planner has failed.
var errPlanner = errors.New("the planner failed")

// askedPlanner is a planner that the caller answers for.
type askedPlanner struct {
	ask func(question string) (answer string, err error)
}

// Wants implements [planner.Planner].
func (askedPlanner) Wants() planner.Wants { return planner.Wants{Passes: true} }

// InitialTickMs implements [planner.Planner].
func (p askedPlanner) InitialTickMs() (float64, error) {
	o, err := p.question(`{"planner":"initial_tick_ms"}`, strictjson.Field{Name: "initial_tick_ms", Type: anyTime})
	if err != nil {
		return 0, err
	}
	return timeOf(o, "initial_tick_ms"), nil
}

// OnTick implements [planner.Planner].
func (p askedPlanner) OnTick(t *planner.Tick) (planner.Decision, error) {
	question := append([]byte(`{"planner":"on_tick","tick":`), appendTick(nil, t)...)
	o, err := p.question(string(append(question, '}')),
		strictjson.Field{Name: "target_prefill", Type: strictjson.Number{}},
		strictjson.Field{Name: "target_decode", Type: strictjson.Number{}},
		strictjson.Field{Name: "next_tick_ms", Type: anyTime},
		strictjson.Field{Name: "reason", Type: strictjson.Text{}})
	if err != nil {
		return planner.Decision{}, err
	}
	d := planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged, NextMs: timeOf(o, "next_tick_ms"),
		Reason: o.Text("reason")}
	for _, target := range []struct {
		name string
		to   *int
	}{{"target_prefill", &d.Prefill}, {"target_decode", &d.Decode}} {
		if !o.Given(target.name) {
			continue
		}
		workers := o.Float(target.name)
		if workers < 0 || workers > planner.MaxWorkers {
			return d, &planner.DecisionError{AtMs: t.NowMs, Field: target.name, Got: o.Shown(target.name),
				Want: fmt.Sprintf("0 to %d", planner.MaxWorkers)}
		}
		*target.to = int(workers)
	}
	return d, nil
}

func (p askedPlanner) question(text string, fields ...strictjson.Field) (*strictjson.Object, error) {
	return asked(p.ask, text, fields...)
}

// asked asks a planner and decodes the answer.
func asked(ask func(string) (string, error), text string, fields ...strictjson.Field) (*strictjson.Object, error) {
	answer, err := ask(text)
	if err != nil {
		return nil, err
	}
	if answer == `{"failed": true}` {
		return nil, errPlanner
	}
	return strictjson.Decode(answer, strictjson.Schema{Fields: fields, NonFinite: true})
}

// timeOf returns a time that a planner names, +Inf for none.
func timeOf(o *strictjson.Object, name string) float64 {
	if !o.Given(name) {
		return math.Inf(1)
	}
	return o.Float(name)
}

// anyTime may lie before the run, too.
var anyTime = strictjson.Number{Min: -math.MaxFloat64, Max: math.MaxFloat64}

// appendPass appends the values of a pass, in the order of the names that Python has for them.
func appendPass(dst []byte, p *planner.Pass) []byte {
	ints := func(dst []byte, values ...int) []byte {
		for _, v := range values {
			dst = append(strconv.AppendInt(dst, int64(v), 10), ',')
		}
		return dst
	}
	floats := func(dst []byte, values ...float64) []byte {
		for _, v := range values {
			dst = append(appendReal(dst, v), ',')
		}
		return dst
	}
	s, q := &p.Scheduled, &p.Queued
	dst = ints(append(dst, '['), p.Worker)
	dst = floats(dst, p.Seconds())
	dst = ints(dst, s.PrefillRequests, s.PrefillTokens)
	dst = floats(dst, s.PrefillVariance)
	dst = ints(dst, s.PrefillKVTokens, s.DecodeRequests, s.DecodeKVTokens)
	dst = floats(dst, s.DecodeKVVariance)
	dst = ints(dst, q.PrefillRequests, q.PrefillTokens)
	dst = floats(dst, q.PrefillVariance)
	dst = ints(dst, q.DecodeRequests, q.DecodeKVTokens)
	dst = floats(dst, q.DecodeKVVariance)
	dst[len(dst)-1] = ']'
	return dst
}

// appendReal appends a number that Python reads as a float.
func appendReal(dst []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendFloat(dst, v, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// appendTick appends a tick as JSON. Passes are lists of values, whose names Python knows.
func appendTick(dst []byte, t *planner.Tick) []byte {
	dst = appendReal(append(dst, `{"now_ms":`...), t.NowMs)
	for _, count := range []struct {
		key   string
		value int
	}{
		{"active_prefill_count", t.Prefill.Active}, {"active_decode_count", t.Decode.Active},
		{"total_prefill_count", t.Prefill.Total}, {"total_decode_count", t.Decode.Total},
	} {
		dst = fmt.Appendf(dst, `,"%s":%d`, count.key, count.value)
	}
	for _, pool := range []struct {
		key    string
		passes []planner.Pass
	}{{"prefill_fpm_snapshots", t.Prefill.Passes}, {"decode_fpm_snapshots", t.Decode.Passes}} {
		dst = fmt.Appendf(dst, `,"%s":[`, pool.key)
		for i := range pool.passes {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendPass(dst, &pool.passes[i])
		}
		dst = append(dst, ']')
	}
	return append(appendTraffic(append(dst, `,"traffic":`...), &t.Traffic), '}')
}

func appendTraffic(dst []byte, t *planner.Traffic) []byte {
	dst = appendReal(append(dst, `{"duration_s":`...), t.DurationS())
	dst = fmt.Appendf(dst, `,"num_req":%d`, t.Requests)
	dst = appendMeans(dst, t, "avg_kv_hit_rate")
	dst = append(dst, `,"avg_accept_length":`...)
	if t.Forwards == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = appendReal(dst, float64(t.Tokens)/float64(t.Forwards))
	}
	return fmt.Appendf(dst, `,"hit_rate_count":%d,"accept_length_forward_count":%d}`, t.Hits, t.Forwards)
}

// appendMeans appends what requests were like; hitRate is the key of the share of prompts that was cached.
func appendMeans(dst []byte, t *planner.Traffic, hitRate string) []byte {
	for _, mean := range []struct {
		key string
		sum float64
		n   int
	}{
		{"avg_isl", float64(t.InputTokens), t.Requests},
		{"avg_osl", float64(t.OutputTokens), t.Requests},
		{"avg_ttft_ms", t.TTFTSumMs, t.TTFTs},
		{"avg_itl_ms", t.ITLSumMs, t.ITLs},
		{hitRate, t.HitSum, t.Hits},
	} {
		dst = appendReal(fmt.Appendf(dst, `,"%s":`, mean.key), planner.Mean(mean.sum, mean.n))
	}
	return dst
}
