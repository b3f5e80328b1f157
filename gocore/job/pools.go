package job

import (
	"encoding/json"
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
)

// withPools completes the description of two pools: each has what its own engine arguments say, else what
// extra_engine_args say, and its worker_type. Other descriptions, and those that are wrong in another way, stay as they
// are.
func withPools(config string) (string, error) {
	members := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(config), &members) != nil || !wantsPools(members) {
		return config, nil
	}
	base, shared := textOf(members["extra_engine_args"])
	if shared {
		if _, _, err := engineargs.Parse(base); err != nil {
			return config, fmt.Errorf("extra_engine_args: %w", err)
		}
	}
	changed := shared
	for _, role := range []engine.Role{engine.Prefill, engine.Decode} {
		name := role.String() + "_engine_args"
		own, given := textOf(members[name])
		if !given && members[name] != nil && string(members[name]) != "null" {
			return config, nil // no text: decode says so
		}
		text, ok := poolText(base, own, role)
		if !ok {
			return config, nil // the parser of engine arguments says what is wrong
		}
		if text != own {
			members[name], _ = json.Marshal(text)
			changed = true
		}
	}
	if !changed {
		return config, nil
	}
	delete(members, "extra_engine_args")
	all, err := json.Marshal(members)
	return string(all), err
}

// wantsPools reports whether a description is one of two pools.
func wantsPools(members map[string]json.RawMessage) bool {
	given := func(name string) bool { return members[name] != nil && string(members[name]) != "null" }
	if given("prefill_engine_args") || given("decode_engine_args") {
		return true
	}
	prefill, decode := given("num_prefill_workers"), given("num_decode_workers")
	one := func(name string) bool { return string(members[name]) == "1" }
	return prefill && decode || prefill && !one("num_prefill_workers") || decode && !one("num_decode_workers")
}

// textOf returns the text that a member has, "{}" and false without one.
func textOf(member json.RawMessage) (text string, given bool) {
	if member == nil || string(member) == "null" || json.Unmarshal(member, &text) != nil {
		return "{}", false
	}
	return text, true
}

// poolText returns the engine arguments of a pool. It reports false for texts that are no objects.
func poolText(base, own string, role engine.Role) (string, bool) {
	flatBase, err := engineargs.Flat(base)
	if err != nil {
		return "", false
	}
	flatOwn, err := engineargs.Flat(own)
	if err != nil {
		return "", false
	}
	text := own
	if base != "{}" {
		if text, err = engineargs.Overlay(flatBase, flatOwn); err != nil {
			return "", false
		}
		flatOwn = text
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(flatOwn), &members) != nil {
		return "", false
	}
	for _, name := range []string{"worker_type", "is_prefill", "is_decode"} {
		if members[name] != nil {
			return text, true
		}
	}
	text, err = engineargs.Overlay(flatOwn, fmt.Sprintf(`{"worker_type":%q}`, role))
	return text, err == nil
}
