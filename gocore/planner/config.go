package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
)

// policyConfig is a policy as users write it. Which keys a policy has is in policyKeys.
type policyConfig struct {
	Policy string `json:"policy"`
	Pool   string `json:"pool"`

	Metric  Metric         `json:"metric"`
	Target  *float64       `json:"target"`
	Kind    targetKind     `json:"kind"`
	Metrics []targetConfig `json:"metrics"`
	Min     *int           `json:"min"`
	Max     *int           `json:"max"`

	SyncS              *float64        `json:"sync_s"`
	Tolerance          *float64        `json:"tolerance"`
	StabilizationUpS   *float64        `json:"stabilization_up_s"`
	StabilizationDownS *float64        `json:"stabilization_down_s"`
	Up                 *behaviorConfig `json:"up"`
	Down               *behaviorConfig `json:"down"`

	PollingS         *float64 `json:"polling_s"`
	CooldownS        *float64 `json:"cooldown_s"`
	InitialCooldownS *float64 `json:"initial_cooldown_s"`
	Activation       *float64 `json:"activation"`
	Idle             *int     `json:"idle"`

	Schedule [][]float64 `json:"schedule"`
}

type targetConfig struct {
	Metric Metric     `json:"metric"`
	Target *float64   `json:"target"`
	Kind   targetKind `json:"kind"`
}

type behaviorConfig struct {
	Policies []limitConfig `json:"policies"`
	Select   string        `json:"select"`
}

type limitConfig struct {
	Type    string   `json:"type"`
	Value   *float64 `json:"value"`
	PeriodS *float64 `json:"period_s"`
}

var hpaKeys = []string{"metric", "target", "kind", "metrics", "min", "max", "sync_s", "tolerance", "stabilization_up_s",
	"stabilization_down_s", "up", "down"}

// policyKeys are the keys of each policy besides policy and pool.
var policyKeys = map[string][]string{
	"hpa": hpaKeys,
	"keda": {"metric", "target", "min", "max", "sync_s", "tolerance", "stabilization_up_s", "stabilization_down_s",
		"up", "down",
		"polling_s", "cooldown_s", "initial_cooldown_s", "activation", "idle"},
	"queue":    {"target", "min", "max", "sync_s"},
	"schedule": {"schedule"},
}

// fieldError says what is wrong with a key.
func fieldError(field string, got any, want string) error {
	return &strictjson.FieldError{Field: field, Got: fmt.Sprint(got), Want: want}
}

// ParseAutoscaler reads a JSON object with a policy, or a list of them for two pools. twoPools tells whether there is a
// pool of prefill workers.
func ParseAutoscaler(text string, twoPools bool) (*Autoscaler, error) {
	texts, err := objects(text)
	if err != nil {
		return nil, err
	}
	a := &Autoscaler{wants: Wants{}}
	pools := map[string]bool{}
	for i, object := range texts {
		p, err := parsePolicy(object, twoPools)
		if err != nil && len(texts) > 1 {
			err = fmt.Errorf("policy %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		if pool := map[bool]string{true: "prefill", false: "decode"}[p.prefill()]; pools[pool] {
			return nil, fieldError("pool", fmt.Sprintf("two policies for %s", pool), "one for each pool")
		} else {
			pools[pool] = true
		}
		a.policies = append(a.policies, &observed{policy: p})
		a.wants.Gauges = true
		a.wants.TTFT = a.wants.TTFT || looksAt(p, TTFTP95)
	}
	return a, nil
}

// objects splits a list of objects, or makes one of a single object.
func objects(text string) ([]json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "[") {
		return []json.RawMessage{json.RawMessage(trimmed)}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(trimmed), &list); err != nil {
		return nil, malformed(err)
	}
	if len(list) == 0 {
		return nil, errors.New("got an empty list, want at least one policy")
	}
	return list, nil
}

func malformed(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		field := wrong.Field
		if field == "" {
			field = "the policy"
		}
		return fieldError(field, "a JSON "+wrong.Value, goTypeName(wrong.Type.Kind().String()))
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		name = strings.Trim(name, `"`)
		return fmt.Errorf("got the unknown key %q%s", name,
			meant(name, slices.Concat([]string{"policy", "pool"}, policyKeys["hpa"], policyKeys["keda"])))
	}
	return fmt.Errorf("not a JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
}

func meant(name string, names []string) string {
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func goTypeName(kind string) string {
	switch kind {
	case "string":
		return "a string"
	case "slice":
		return "a list"
	case "struct":
		return "an object"
	case "int":
		return "an integer"
	}
	return "a number"
}

func parsePolicy(text []byte, twoPools bool) (policy, error) {
	var c policyConfig
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return nil, malformed(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("not a JSON object: something follows it")
	}
	if err := c.checkKeys(text); err != nil {
		return nil, err
	}
	prefill := false
	switch {
	case c.Pool == "prefill" && !twoPools:
		return nil, fieldError("pool", `"prefill"`, "decode, or it left out: the run has one pool")
	case c.Pool == "prefill":
		prefill = true
	case c.Pool != "" && c.Pool != "decode":
		return nil, fieldError("pool", fmt.Sprintf("%q", c.Pool), "prefill or decode")
	}
	switch c.Policy {
	case "schedule":
		return c.timetable(prefill)
	case "queue":
		return c.queue(prefill)
	case "keda":
		return c.keda(prefill)
	}
	return c.hpa(prefill, averageTarget, 1, 8)
}

// checkKeys refuses keys that the policy does not have.
func (c *policyConfig) checkKeys(text []byte) error {
	keys, known := policyKeys[c.Policy]
	if !known {
		return fieldError("policy", fmt.Sprintf("%q", c.Policy), "hpa, keda, queue or schedule")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return malformed(err)
	}
	var names []string
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name != "policy" && name != "pool" && !slices.Contains(keys, name) {
			return fieldError(name, string(given[name]), "it left out with policy "+c.Policy)
		}
	}
	return nil
}

// number returns a value or its default, which has to be above or, if that is allowed, at low.
func number(name string, given *float64, byDefault, low float64, atLow bool) (float64, error) {
	if given == nil {
		return byDefault, nil
	}
	if *given < low || *given == low && !atLow || *given > 1e12 {
		sign := map[bool]string{true: ">=", false: ">"}[atLow]
		return 0, fieldError(name, *given, fmt.Sprintf("a number %s %v", sign, low))
	}
	return *given, nil
}

// bounds returns the least and most workers.
func (c *policyConfig) bounds(least, most int) (low, high int, err error) {
	low, high = least, most
	if c.Min != nil {
		low = *c.Min
	}
	if c.Max != nil {
		high = *c.Max
	} else {
		high = max(high, low)
	}
	if floor := min(least, 1); low < floor || low > MaxWorkers {
		return 0, 0, fieldError("min", low, fmt.Sprintf("%d to %d", floor, MaxWorkers))
	}
	if high < max(low, 1) || high > MaxWorkers {
		return 0, 0, fieldError("max", high, fmt.Sprintf("min or more, %d to %d", max(low, 1), MaxWorkers))
	}
	return low, high, nil
}

func (c *policyConfig) clock(name string, given *float64, byDefaultS float64) (every, error) {
	seconds, err := number(name, given, byDefaultS, 0, false)
	if err == nil && seconds < 0.001 {
		err = fieldError(name, seconds, "at least 0.001")
	}
	return every{periodMs: 1000 * seconds}, err
}

func (c *policyConfig) timetable(prefill bool) (policy, error) {
	t := &timetable{ofPrefill: prefill}
	for _, pair := range c.Schedule {
		if len(pair) != 2 || pair[0] < 0 || pair[0] > 1e12 || pair[1] < 0 || pair[1] > MaxWorkers ||
			pair[1] != math.Trunc(pair[1]) {
			return nil, fieldError("schedule", pair,
				fmt.Sprintf("[seconds, workers], with 0 to %d workers", MaxWorkers))
		}
		next := row{1000 * pair[0], int(pair[1])}
		if n := len(t.rows); n > 0 && next.atMs <= t.rows[n-1].atMs {
			return nil, fieldError("schedule", pair, "times that increase")
		}
		t.rows = append(t.rows, next)
	}
	if len(t.rows) == 0 {
		return nil, fieldError("schedule", "nothing", "a list of [seconds, workers]")
	}
	return t, nil
}

func (c *policyConfig) queue(prefill bool) (policy, error) {
	if c.Target == nil {
		return nil, fieldError("target", "nothing", "the waiting requests for which there is to be a worker")
	}
	target, err := number("target", c.Target, 0, 0, false)
	if err != nil {
		return nil, err
	}
	q := &queue{ofPrefill: prefill, target: target}
	if q.min, q.max, err = c.bounds(1, 8); err != nil {
		return nil, err
	}
	q.clock, err = c.clock("sync_s", c.SyncS, 15)
	return q, err
}

func (c *policyConfig) keda(prefill bool) (policy, error) {
	h, err := c.hpa(prefill, totalTarget, 0, 100)
	if err != nil {
		return nil, err
	}
	if h.targets[0].metric == TTFTP95 {
		return nil, fieldError("metric", TTFTP95,
			"num_requests_waiting, num_requests_running or kv_cache_usage with policy keda")
	}
	k := &keda{scaler: *h, metric: h.targets[0].metric, floor: h.min}
	k.scaler.min = max(1, h.min)
	if k.poll, err = c.clock("polling_s", c.PollingS, 30); err != nil {
		return nil, err
	}
	cooldown, err := number("cooldown_s", c.CooldownS, 300, 0, true)
	if err != nil {
		return nil, err
	}
	initial, err := number("initial_cooldown_s", c.InitialCooldownS, 0, 0, true)
	if err != nil {
		return nil, err
	}
	activation, err := number("activation", c.Activation, 0, 0, true)
	if err != nil {
		return nil, err
	}
	k.cooldownMs, k.initialMs, k.activation = 1000*cooldown, 1000*initial, thousandths(activation)
	k.idle = h.min
	if c.Idle != nil {
		if k.idle = *c.Idle; k.idle < 0 || k.idle >= max(1, h.min) {
			return nil, fieldError("idle", k.idle, fmt.Sprintf("0 to %d, below min", max(1, h.min)-1))
		}
	}
	return k, nil
}

func (c *policyConfig) hpa(prefill bool, byDefault targetKind, least, most int) (*hpa, error) {
	h := &hpa{ofPrefill: prefill}
	var err error
	if h.min, h.max, err = c.bounds(least, most); err != nil {
		return nil, err
	}
	if h.clock, err = c.clock("sync_s", c.SyncS, 15); err != nil {
		return nil, err
	}
	if h.tolerance, err = number("tolerance", c.Tolerance, 0.1, 0, true); err != nil {
		return nil, err
	}
	if h.up, err = c.Up.behavior("up", 1, c.StabilizationUpS, 0); err != nil {
		return nil, err
	}
	if h.down, err = c.Down.behavior("down", -1, c.StabilizationDownS, 300); err != nil {
		return nil, err
	}
	configs := c.Metrics
	switch {
	case configs != nil && (c.Metric != "" || c.Target != nil || c.Kind != ""):
		return nil, fieldError("metrics", "a list", "it alone, or metric, target and kind")
	case configs == nil:
		configs = []targetConfig{{c.Metric, c.Target, c.Kind}}
	case len(configs) == 0:
		return nil, fieldError("metrics", "an empty list", "at least one metric")
	}
	for _, config := range configs {
		t, err := config.target(byDefault)
		if err != nil {
			return nil, err
		}
		h.targets = append(h.targets, t)
	}
	return h, nil
}

func (c *targetConfig) target(byDefault targetKind) (target, error) {
	t := target{metric: c.Metric, kind: c.Kind}
	if t.metric == "" {
		t.metric = Waiting
	}
	if !slices.Contains(metrics, t.metric) {
		return t, fieldError("metric", fmt.Sprintf("%q", t.metric),
			"num_requests_waiting, num_requests_running, kv_cache_usage or ttft_p95_ms")
	}
	if t.kind == "" {
		t.kind = byDefault
		if t.metric == TTFTP95 {
			t.kind = valueTarget
		}
	}
	switch {
	case !slices.Contains([]targetKind{averageTarget, totalTarget, valueTarget}, t.kind):
		return t, fieldError("kind", fmt.Sprintf("%q", t.kind), "average, total or value")
	case t.metric == TTFTP95 && t.kind != valueTarget:
		return t, fieldError("kind", fmt.Sprintf("%q", t.kind), "value with metric ttft_p95_ms")
	case c.Target == nil:
		return t, fieldError("target", "nothing", "the value that the metric is to have")
	}
	value, err := number("target", c.Target, 0, 0, false)
	if t.value = thousandths(value); err == nil && t.value < 1 {
		err = fieldError("target", value, "at least 0.001")
	}
	return t, err
}

// behavior reads how fast a pool may change in one direction, 1 for growing and -1 for shrinking. The defaults are
// those of Kubernetes.
func (c *behaviorConfig) behavior(name string, direction int, stabilization *float64, byDefaultS float64) (behavior,
	error) {
	b := behavior{limits: []limit{{percent: true, value: 100, periodMs: 15_000}}}
	if direction > 0 {
		b.limits = append(b.limits, limit{value: 4, periodMs: 15_000})
	}
	seconds, err := number("stabilization_"+name+"_s", stabilization, byDefaultS, 0, true)
	if err != nil || c == nil {
		b.stabilizationMs = 1000 * seconds
		return b, err
	}
	b.stabilizationMs = 1000 * seconds
	switch c.Select {
	case "", "max":
	case "min":
		b.least = true
	case "disabled":
		b.disabled = true
	default:
		return b, fieldError(name+".select", fmt.Sprintf("%q", c.Select), "max, min or disabled")
	}
	if c.Policies == nil {
		return b, nil
	}
	b.limits = nil
	for _, p := range c.Policies {
		l, err := p.limit(name + ".policies")
		if err != nil {
			return b, err
		}
		b.limits = append(b.limits, l)
	}
	if len(b.limits) == 0 {
		return b, fieldError(name+".policies", "an empty list", `at least one, or "select": "disabled"`)
	}
	return b, nil
}

func (c *limitConfig) limit(name string) (limit, error) {
	if c.Type != "pods" && c.Type != "percent" {
		return limit{}, fieldError(name+".type", fmt.Sprintf("%q", c.Type), "pods or percent")
	}
	if c.Value == nil || c.PeriodS == nil {
		return limit{}, fieldError(name, "no value or no period_s", "type, value and period_s")
	}
	value, err := number(name+".value", c.Value, 0, 0, false)
	if err != nil {
		return limit{}, err
	}
	period, err := number(name+".period_s", c.PeriodS, 0, 0, false)
	return limit{percent: c.Type == "percent", value: value, periodMs: 1000 * period}, err
}

// looksAt reports whether a policy looks at a metric.
func looksAt(p policy, m Metric) bool {
	switch p := p.(type) {
	case *hpa:
		return slices.ContainsFunc(p.targets, func(t target) bool { return t.metric == m })
	case *keda:
		return p.metric == m
	}
	return false
}
