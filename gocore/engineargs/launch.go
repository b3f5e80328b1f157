package engineargs

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
)

// Dynamo 1.6 writes engine arguments in nested form:
//
//	{"engine": {"backend": "vllm", "block_size": 16, "timing_model": {"type": "polynomial"}},
//	 "dp_size": 1, "dynamo": {"bootstrap_port": 1}}
//
// Flat turns it into the flat object that all else here knows. Fields of the flat form may stand beside "engine", for
// what only this program has.

// launched is a member of the nested form.
type launched struct {
	path string // such as "engine.backend"
	name string // the flat field that it sets, "" if there is none
	// Without a flat field, only these values are accepted, as JSON writes them; others are refused for the reason.
	harmless, reason string
}

// launchFields are the members that are not called as in the flat form, those of "engine" and "dynamo" that are, and
// those that are refused.
var launchFields = append(append([]launched{
	{path: "engine.backend", name: "engine_type"},
	{path: "engine.kv_transfer_bytes_per_token", name: "kv_bytes_per_token"},
	{path: "engine.emit_kv_events", harmless: "true false", reason: ""},
	{path: "engine.emit_kv_token_ids", harmless: "false",
		reason: "KV events without token ids: those with them are not written"},
	{path: "engine.prefill_schedule_interval", harmless: "1",
		reason: "1, or prefill_schedule_interval beside engine with scheduler vllm-0.33"},
	{path: "engine.prefill_decode_interval", harmless: "0", reason: "0: no decode passes are forced between prompts"},
	{path: "engine.kv_cache_bytes_per_token", reason: "it left out: KV offload tiers are not simulated"},
	{path: "engine.native_host_offload", reason: "it left out: KV offload tiers are not simulated"},
	{path: "engine.g3_offload", reason: "it left out: KV offload tiers are not simulated"},
	{path: "engine.kv_cache_groups", reason: "it left out: there is one group of KV blocks"},
	{path: "engine.kv_cache_capacity_bytes", reason: "num_gpu_blocks instead"},
	{path: "engine.state_cache", reason: "it left out: state of hybrid models is not simulated"},
	{path: "engine.prefix_match_unit", reason: "it left out: state of hybrid models is not simulated"},
	{path: "tensor_parallel_size", name: "aic_tp_size"},
	{path: "num_gpu_blocks_is_explicit", harmless: "true false"},
	{path: "cuda_graph_reserved_bytes", reason: "it left out: KV pools are estimated by the AIC SDK"},
}, alike("engine", "num_gpu_blocks", "block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
	"enable_prefix_caching",
	"enable_chunked_prefill", "speedup_ratio", "decode_speedup_ratio", "aic_nextn", "aic_nextn_accept_rates",
	"aic_mtp_seed",
	"worker_type", "preemption_mode", "kv_bytes_per_token", "kv_transfer_bandwidth", "kv_transfer_timing_mode",
	"timing_model",
	"sglang", "trtllm")...), alike("dynamo", "enable_local_indexer", "bootstrap_port", "handoff_session_timeout_ms",
	"reasoning",
	"response_replay_trace_path", "zmq_kv_events_port", "zmq_replay_port", "router_queue_policy")...)

func alike(object string, names ...string) []launched {
	fields := make([]launched, len(names))
	for i, name := range names {
		fields[i] = launched{path: object + "." + name, name: name}
	}
	return fields
}

// launchObjects are the members that hold others.
var launchObjects = []string{"engine", "dynamo"}

// Flat returns engine arguments in flat form. A text that is flat already, or is no JSON object, is returned as it is.
func Flat(text string) (string, error) {
	if !strings.Contains(text, `"engine"`) && !strings.Contains(text, `"dynamo"`) &&
		!strings.Contains(text, `"timing_model"`) {
		return text, nil // the usual case, without reading it twice
	}
	members, ok := membersOf(text)
	if !ok {
		return text, malformed(text)
	}
	f := flattening{from: map[string]string{}}
	for _, m := range members {
		if err := f.outer(m); err != nil {
			return "", err
		}
	}
	if !f.changed {
		return text, nil
	}
	if len(f.text) == 0 {
		return "{}", nil
	}
	return string(append(f.text, '}')), nil
}

// malformed says what is wrong with a text that is no object, whichever form it has.
func malformed(text string) error {
	s := schema()
	for _, object := range launchObjects {
		s.Fields = append(s.Fields, strictjson.Field{Name: object, Type: strictjson.Any{}})
	}
	_, err := strictjson.Decode(text, s)
	return err
}

// keyed is a member of an object as the text has it.
type keyed struct {
	name  string
	value jsontext.Value
}

// membersOf lists the members of an object, and reports whether the text is one. Keys may come twice.
func membersOf(text string) (members []keyed, ok bool) {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		return nil, false
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		members = append(members, keyed{key, value.Clone()})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	return members, strings.TrimSpace(text[d.InputOffset():]) == ""
}

// flattening is a flat object that grows.
type flattening struct {
	text    []byte
	from    map[string]string // the path that has set each field
	changed bool
}

// outer adds a member of the outermost object.
func (f *flattening) outer(m keyed) error {
	for _, object := range launchObjects {
		if m.name != object {
			continue
		}
		f.changed = true
		inner, ok := membersOf(string(m.value))
		if !ok {
			return &strictjson.FieldError{Field: object, Got: string(m.value), Want: "an object"}
		}
		for _, member := range inner {
			if err := f.inner(object, member); err != nil {
				return err
			}
		}
		return nil
	}
	if l, known := findLaunched(m.name); known {
		return f.set(l, m.value)
	}
	return f.set(launched{path: m.name, name: m.name}, m.value)
}

// inner adds a member of "engine" or "dynamo".
func (f *flattening) inner(object string, m keyed) error {
	path := object + "." + m.name
	l, known := findLaunched(path)
	if known {
		return f.set(l, m.value)
	}
	e := &strictjson.UnknownFieldError{Field: path}
	for _, l := range launchFields {
		if name, inside := strings.CutPrefix(l.path, object+"."); inside {
			e.Accepted = append(e.Accepted, name)
		}
	}
	if near := spelling.Nearest(m.name, e.Accepted); near != "" {
		e.Nearest = object + "." + near
	}
	return e
}

func findLaunched(path string) (launched, bool) {
	for _, l := range launchFields {
		if l.path == path {
			return l, true
		}
	}
	return launched{}, false
}

// set adds a field. A null of a member that has no flat field says nothing.
func (f *flattening) set(l launched, value jsontext.Value) error {
	f.changed = f.changed || l.path != l.name
	if l.name == "" {
		if shown := string(value); shown != "null" && !strings.Contains(" "+l.harmless+" ", " "+shown+" ") {
			return &strictjson.FieldError{Field: l.path, Got: shown, Want: l.reason}
		}
		return nil
	}
	if l.name == "timing_model" && value.Kind() == '{' {
		f.changed = true
		return f.timing(l.path, value)
	}
	return f.add(l.path, l.name, value)
}

// add appends a field, once.
func (f *flattening) add(path, name string, value jsontext.Value) error {
	if before, twice := f.from[name]; twice && before == path {
		return &strictjson.FieldError{Field: path, Got: "a duplicate key", Want: "the key once"}
	} else if twice {
		return &strictjson.FieldError{Field: path, Got: fmt.Sprintf("%s beside %s", value, before),
			Want: "one of the two"}
	}
	f.from[name] = path
	separator := byte(',')
	if len(f.text) == 0 {
		separator = '{'
	}
	f.text = append(f.text, separator)
	f.text, _ = jsontext.AppendQuote(f.text, name) // it was read from JSON
	f.text = append(append(f.text, ':'), value...)
	return nil
}

// timing adds a timing model that is an object: its type, and what that needs.
func (f *flattening) timing(path string, value jsontext.Value) error {
	members, _ := membersOf(string(value))
	kind := ""
	for _, m := range members {
		if m.name == "type" {
			kind = strings.Trim(string(m.value), `"`)
		}
	}
	switch kind {
	case polynomial:
		return f.add(path, "timing_model", jsontext.Value(`"polynomial"`))
	case fixed:
		if err := f.add(path, "timing_model", jsontext.Value(`"fixed"`)); err != nil {
			return err
		}
	case "external":
		return &strictjson.FieldError{Field: path + ".type", Got: `"external"`,
			Want: "polynomial or fixed: durations of the AIC SDK are aic_backend and aic_model_path, measured ones " +
				"planner_profile_data"}
	default:
		return &strictjson.FieldError{Field: path + ".type", Got: shownKind(kind), Want: "polynomial or fixed"}
	}
	for _, m := range members {
		var err error
		switch m.name {
		case "prefill_ms", "decode_ms":
			err = f.add(path+"."+m.name, "fixed_"+m.name, m.value)
		case "type":
		default:
			err = &strictjson.UnknownFieldError{Field: path + "." + m.name,
				Accepted: []string{"type", "prefill_ms", "decode_ms"}}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func shownKind(kind string) string {
	if kind == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", kind)
}
