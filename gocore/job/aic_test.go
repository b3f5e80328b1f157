package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeSDK answers as the SDK would, and keeps count. Sessions of all fakes have different numbers, because predictions
// are kept for the life of a process.
type fakeSDK struct {
	opened    []string // questions that open sessions
	capacity  []string
	predicted [][]int // questions that ask for durations
	exchanges int     // of those

	ms      func(kind, batch, tokens, prefix int) float64
	refusal string // of the session
	failure string // of every prediction
}

var lastSession atomic.Int64

func (f *fakeSDK) ask(question string) (string, error) {
	var asked struct {
		Open, Capacity json.RawMessage
		KVBytes        json.RawMessage `json:"kv_bytes"`
		Predict        struct{ Questions [][]int }
	}
	if err := json.Unmarshal([]byte(question), &asked); err != nil {
		return "", err
	}
	switch {
	case asked.Open != nil && f.refusal != "":
		return fmt.Sprintf(`{"error":%q}`, f.refusal), nil
	case asked.Open != nil:
		f.opened = append(f.opened, string(asked.Open))
		return fmt.Sprintf(`{"session":%d,"version":"0.24.0","release":"0.12.0"}`, lastSession.Add(1)), nil
	case asked.KVBytes != nil:
		return `{"bytes":null}`, nil
	case asked.Capacity != nil:
		f.capacity = append(f.capacity, string(asked.Capacity))
		return `{"blocks":50}`, nil
	}
	return f.predict(asked.Predict.Questions)
}

func (f *fakeSDK) predict(questions [][]int) (string, error) {
	f.exchanges++
	f.predicted = append(f.predicted, questions...)
	var answer struct {
		Ms     []*float64        `json:"ms"`
		Errors map[string]string `json:"errors"`
	}
	answer.Errors = map[string]string{}
	for i, q := range questions {
		if f.failure != "" {
			answer.Ms = append(answer.Ms, nil)
			answer.Errors[fmt.Sprint(i)] = f.failure
			continue
		}
		ms := f.ms(q[0], q[1], q[2], q[3])
		answer.Ms = append(answer.Ms, &ms)
	}
	text, err := json.Marshal(answer)
	return string(text), err
}

func (f *fakeSDK) run(config string) (*Result, error) { return Run(config, &Monitor{Ask: f.ask}) }

// tenAndTwo takes 10 ms for a prompt and 2 ms for a decode.
func tenAndTwo(kind, _, _, _ int) float64 { return []float64{10, 2}[kind] }

func aicArgs(members string) string {
	return `{"aic_backend":"vllm","aic_model_path":"m"` + members + `}`
}

func withArgs(name, args string) string {
	quoted, _ := json.Marshal(args)
	return fmt.Sprintf(`%q:%s`, name, quoted)
}

func metric(t *testing.T, r *Result, key string) any {
	t.Helper()
	var parsed struct{ Report map[string]any }
	if err := json.Unmarshal([]byte(r.JSON()), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed.Report[key]
}

// TestAIC: passes last as long as the SDK says, the pool is as large, and the second run asks for no duration again.
func TestAIC(t *testing.T) {
	f := &fakeSDK{ms: tenAndTwo}
	config := synthetic(withArgs("extra_engine_args",
		aicArgs(`,"aic_attention_dp_size":2,"gpu_memory_utilization":0.5`)) + `,"num_workers":3`)
	result, err := f.run(config)
	if err != nil {
		t.Fatal(err)
	}
	if ttft, itl := metric(t, result, "mean_ttft_ms"), metric(t, result, "mean_itl_ms"); ttft != 12.0 || itl != 2.0 {
		t.Errorf("time to first token %v, gap %v, want 10 + 2 and 2", ttft, itl)
	}
	if got, want := metric(t, result, "timing_model"),
		"aic: m, h200_sxm, vllm 0.24.0, tp 1, attention dp 2"; got != want {
		t.Errorf("timing model %v, want %s", got, want)
	}
	if len(result.warnings) > 0 { // the timing model names the version
		t.Errorf("warnings %q, want none", result.warnings)
	}
	if len(f.opened) != 1 || len(f.capacity) != 1 || !strings.Contains(f.capacity[0], `"memory_fraction_value":0.5`) {
		t.Errorf("opened %q, capacity %q", f.opened, f.capacity)
	}
	// A second decode at the next length asks for the one after it, too.
	if want := [][]int{{0, 1, 8, 0}, {1, 1, 8, 0}, {1, 1, 9, 0}, {1, 1, 10, 0}}; !slices.EqualFunc(f.predicted, want,
		slices.Equal) {
		t.Errorf("asked %v, want %v: three workers share the answers", f.predicted, want)
	}
}

// TestAICIsRemembered: the same session asks for nothing twice, whatever run it serves.
func TestAICIsRemembered(t *testing.T) {
	f := &fakeSDK{ms: tenAndTwo}
	config := synthetic(withArgs("extra_engine_args", aicArgs("")))
	if _, err := f.run(config); err != nil {
		t.Fatal(err)
	}
	first := f.exchanges
	lastSession.Add(-1) // the next session is the same one
	if _, err := f.run(config); err != nil || f.exchanges != first || first == 0 {
		t.Errorf("%d exchanges, then %d, error %v", first, f.exchanges-first, err)
	}
}

// TestAICPools: the pools of a disaggregated run have sessions of their own, unless they are the same.
func TestAICPools(t *testing.T) {
	run := func(prefill, decode string) (*fakeSDK, *Result) {
		f := &fakeSDK{ms: tenAndTwo}
		result, err := f.run(synthetic(`"router_mode":"kv_router",` +
			withArgs("prefill_engine_args", aicArgs(`,"worker_type":"prefill"`+prefill)) + "," +
			withArgs("decode_engine_args", aicArgs(`,"worker_type":"decode"`+decode))))
		if err != nil {
			t.Fatal(err)
		}
		return f, result
	}
	f, result := run("", "")
	if got := metric(t, result, "timing_model"); len(f.opened) != 1 || len(f.capacity) != 2 ||
		got != "aic: m, h200_sxm, vllm 0.24.0, tp 1" {
		t.Errorf("%d sessions, %d estimates, timing model %v", len(f.opened), len(f.capacity), got)
	}
	f, result = run(`,"num_gpu_blocks":100`, `,"num_gpu_blocks":100,"aic_tp_size":2`)
	want := "aic: m, h200_sxm, vllm 0.24.0, tp 1 (prefill), aic: m, h200_sxm, vllm 0.24.0, tp 2 (decode)"
	if got := metric(t, result, "timing_model"); len(f.opened) != 2 || len(f.capacity) != 0 || got != want {
		t.Errorf("%d sessions, %d estimates, timing model %v", len(f.opened), len(f.capacity), got)
	}
}

const (
	routedByAIC = `"num_workers":2,"router_mode":"kv_router","router_config":"{\"router_prefill_load_model\":\"aic\"}"`
	perfConfig  = `"aic_perf_config":"{\"aic_backend\":\"vllm\",\"aic_system\":\"s\",\"aic_model_path\":\"m\"}"`
)

// TestRouterAsksAIC: the router asks about whole prompts; engines go on by their own model.
func TestRouterAsksAIC(t *testing.T) {
	f := &fakeSDK{ms: tenAndTwo}
	result, err := f.run(synthetic(routedByAIC + "," + perfConfig))
	if err != nil {
		t.Fatal(err)
	}
	if got := metric(t, result, "timing_model"); got != "polynomial" {
		t.Errorf("timing model %v", got)
	}
	if want := [][]int{{0, 1, 8, 0}}; !slices.EqualFunc(f.predicted, want, slices.Equal) {
		t.Errorf("asked %v, want %v", f.predicted, want)
	}
	f = &fakeSDK{failure: "beyond the data"}
	result, err = f.run(synthetic(routedByAIC + "," + perfConfig))
	want := "aic_perf_config: 3 durations could not be predicted: such prompts count in full until they are " +
		"computed; " +
		"the first: prefill of 1 requests with 8 new tokens after 0: beyond the data"
	if err != nil || !slices.Contains(result.warnings, want) {
		t.Errorf("got %v, warnings %q", err, result.warnings)
	}
}

// TestPrefillRouterAsksAIC: in front of decode workers there is nothing to ask.
func TestPrefillRouterAsksAIC(t *testing.T) {
	f := &fakeSDK{ms: tenAndTwo}
	_, err := f.run(synthetic(`"router_mode":"kv_router","router_config":"{\"router_prefill_load_model\":\"aic\"}",` +
		perfConfig + "," +
		withArgs("prefill_engine_args", `{"worker_type":"prefill"}`) + "," +
		withArgs("decode_engine_args", `{"worker_type":"decode"}`)))
	if want := [][]int{{0, 1, 8, 0}}; err != nil || !slices.EqualFunc(f.predicted, want, slices.Equal) {
		t.Errorf("error %v, asked %v, want %v", err, f.predicted, want)
	}
}

// TestEstimateDecidesRoutes: the third request goes where the prompt before it is through, by what the SDK says, while
// the engines are busy with both.
func TestEstimateDecidesRoutes(t *testing.T) {
	trace := writeTrace(t, `{"timestamp":0,"input_length":5120,"output_length":2,"hash_ids":[1,2,3,4,5,6,7,8,9,10]}`+"\n"+
		`{"timestamp":1,"input_length":512,"output_length":2,"hash_ids":[11]}`+"\n"+
		`{"timestamp":10,"input_length":512,"output_length":2,"hash_ids":[12]}`+"\n")
	config := strings.NewReplacer("TRACE", trace, `load_model\":\"aic\"`,
		`load_model\":\"aic\",\"router_track_active_blocks\":false`).
		Replace(traced(routedByAIC + "," + perfConfig))
	for want, msOf := range map[int]map[int]float64{
		0: {5120: 5, 512: 1000},
		1: {5120: 1000, 512: 5},
	} {
		f := &fakeSDK{ms: func(_, _, tokens, _ int) float64 { return msOf[tokens] }}
		result, err := f.run(config)
		if err != nil {
			t.Fatal(err)
		}
		workers, _ := result.Ints("decode_worker_idx")
		if workers[0] == workers[1] || workers[2] != workers[want] {
			t.Errorf("durations %v: workers %v, want the last request with number %d", msOf, workers, want)
		}
	}
}

func TestAICRefusals(t *testing.T) {
	for _, c := range []struct{ config, refusal, want string }{
		{synthetic(withArgs("extra_engine_args", aicArgs(""))), "aic_system: got \"x\", want one of a, b",
			`extra_engine_args: aic_system: got "x", want one of a, b`},
		{synthetic(routedByAIC + "," + perfConfig), "no SDK", `aic_perf_config: no SDK`},
		{synthetic(routedByAIC), "", `router_config: router_prefill_load_model: got "aic", want aic_perf_config ` +
			`(aic_backend, aic_system, aic_model_path) with it`},
		{synthetic(`"num_workers":2,"router_mode":"kv_router",` + perfConfig), "",
			`aic_perf_config: got "{\"aic_backend\":\"vllm\",`},
		{synthetic(perfConfig), "", `aic_perf_config: got "{\"aic_backend\":\"vllm\",`},
		{synthetic(routedByAIC + `,"aic_perf_config":"{}"`), "",
			`aic_perf_config: aic_backend: got nothing, want a string that is not empty`},
	} {
		_, err := (&fakeSDK{refusal: c.refusal}).run(c.config)
		if err == nil || Kind(err) != "usage" || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.config, err, c.want)
		}
	}
	checkRefusal(t, synthetic(withArgs("extra_engine_args", aicArgs(""))),
		"extra_engine_args: AIC predictions come from Python", "usage")
}

// TestAICFails: what the SDK cannot predict ends a run that has begun.
func TestAICFails(t *testing.T) {
	config := synthetic(withArgs("extra_engine_args", aicArgs("")))
	_, err := (&fakeSDK{failure: "beyond the data"}).run(config)
	if want := "AIC: prefill of 1 requests with 8 new tokens after 0: beyond the data"; err == nil ||
		Kind(err) != "failed" || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, config := range []string{config, synthetic(routedByAIC + "," + perfConfig)} {
		f := &fakeSDK{ms: tenAndTwo}
		for _, cause := range []error{errors.New("gone"), ErrCancelled} {
			_, err = Run(config, &Monitor{Ask: func(question string) (string, error) {
				if strings.HasPrefix(question, `{"predict"`) {
					return "", cause
				}
				return f.ask(question)
			}})
			if want := map[bool]string{true: "cancelled", false: "failed"}[cause == ErrCancelled]; err == nil ||
				Kind(err) != want {
				t.Errorf("%v: got %v", cause, err)
			}
		}
	}
}
