package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
)

// engineArguments returns the engine arguments of the file that the description names, or else those of its options.
func engineArguments(o *strictjson.Object) (args engineargs.Args, warnings []string, err error) {
	role, warning := mode(o)
	if warning != "" {
		warnings = append(warnings, warning)
	}
	source, text := "engine arguments", ""
	if o.Given("extra_engine_args") {
		source = "extra_engine_args"
		text, err = fileText(o, role)
		vain := givenArgs(o)
		if o.Given(longest) {
			vain = append(vain, longest)
		}
		if len(vain) > 0 {
			warnings = append(warnings, strings.Join(vain,
				", ")+": no effect beside extra_engine_args, which replaces all of them")
		}
	} else {
		text, err = engineText(o, role)
	}
	if err != nil {
		return args, nil, err
	}
	args, more, err := engineargs.ParseLive(text)
	if err != nil {
		return args, nil, fmt.Errorf("%s: %w", source, err)
	}
	if err := worker.Check(args); err != nil {
		return args, nil, fmt.Errorf("%s: %w", source, err)
	}
	if role != "" && args.Role.String() != role {
		return args, nil, fmt.Errorf("disaggregation_mode: got that of %s workers, but the file of extra_engine_args "+
			"says worker_type %s; use one of them", role, args.Role)
	}
	if o.Bool("durable_kv_events") {
		args.Live.LocalIndexer = false
		warnings = append(warnings, "durable_kv_events is deprecated: KV events go to a stream of NATS JetStream, "+
			"and only routers that read it hear of them")
	}
	return args, append(append(warnings, more...), vainOptions(o, args.Role)...), nil
}

// vainOptions warns of options that have no effect on workers of that role, apart from engine arguments.
func vainOptions(o *strictjson.Object, t engine.Role) (warnings []string) {
	for _, opt := range options {
		if opt.prefill && t != engine.Prefill && !o.AtDefault(opt.Name) {
			warnings = append(warnings, fmt.Sprintf("%s has no effect on %s workers", opt.Name, t))
		}
		if opt.aic && o.Given(opt.Name) && !o.Bool("aic_perf_model") {
			warnings = append(warnings, opt.Name+" has no effect without aic_perf_model")
		}
	}
	return warnings
}

// besideFile is the option that has an effect even beside a file with engine arguments.
const besideFile = "kv_bytes_per_token"

// longest is the option that live workers take as an engine argument. A server looks at it itself, as it refuses what
// is too long.
const longest = "max_model_len"

// fileText returns the JSON object with engine arguments, given as a file or as text. Options that have an effect
// beside it are added.
func fileText(o *strictjson.Object, role string) (string, error) {
	content := []byte(o.Text("extra_engine_args"))
	if !bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		var err error
		if content, err = os.ReadFile(string(content)); err != nil {
			return "", unreadable("extra_engine_args", o.Text("extra_engine_args"), err)
		}
	}
	flat, err := engineargs.Flat(string(content))
	if err != nil {
		return "", fmt.Errorf("extra_engine_args: %w", err)
	}
	content = []byte(flat)
	var members map[string]json.RawMessage
	if json.Unmarshal(content, &members) != nil || members == nil {
		return string(content), nil // the parser says what is wrong
	}
	added := map[string]any{}
	if _, given := members["worker_type"]; !given && members["is_prefill"] == nil && members["is_decode"] == nil &&
		role != "" {
		added["worker_type"] = role
	}
	if isGiven(members["aic_backend"]) && !isGiven(members["aic_model_path"]) && o.Given("model_path") {
		added["aic_model_path"] = o.Text("model_path")
	}
	if o.Given(besideFile) {
		delete(members, besideFile)
		added[besideFile] = o.Uint(besideFile)
	}
	if len(added) == 0 {
		return string(content), nil // as it is: it may have keys twice
	}
	for name, value := range added {
		text, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		members[name] = text
	}
	text, err := json.Marshal(members)
	return string(text), err
}

func isGiven(value json.RawMessage) bool { return value != nil && string(value) != "null" }

// givenArgs returns the options that set engine arguments, of those given.
func givenArgs(o *strictjson.Object) (names []string) {
	for _, opt := range options {
		if opt.engineArg != "" && opt.Name != besideFile && o.Given(opt.Name) {
			names = append(names, opt.Name)
		}
	}
	return names
}

// engineText returns the JSON object with the engine arguments that the options set.
func engineText(o *strictjson.Object, role string) (string, error) {
	object := map[string]any{"enable_local_indexer": !o.Bool("durable_kv_events")}
	maps.Copy(object, aicArguments(o))
	if role != "" {
		object["worker_type"] = role
	}
	if role == engine.Prefill.String() {
		object["kv_transfer_bandwidth"] = engineargs.StandardBandwidthGBs
	}
	if o.Given(longest) && !o.Bool("standalone") && !o.Bool("frontend") {
		object[longest] = o.Int(longest)
	}
	for _, opt := range options {
		if opt.engineArg == "" || !o.Given(opt.Name) {
			continue
		}
		value := valueOf(o, opt)
		if opt.Name == "reasoning" {
			text := o.Text(opt.Name)
			if text == "" {
				continue
			}
			if !json.Valid([]byte(text)) {
				return "", &strictjson.FieldError{Field: opt.Name, Got: o.Shown(opt.Name), Want: "a JSON object"}
			}
			value = json.RawMessage(text)
		}
		into, name := object, opt.engineArg
		if outer, inner, nested := strings.Cut(name, "."); nested {
			if into[outer] == nil {
				into[outer] = map[string]any{}
			}
			into, name = into[outer].(map[string]any), inner
		}
		into[name] = value
	}
	text, err := json.Marshal(object)
	return string(text), err
}

func valueOf(o *strictjson.Object, opt option) any {
	switch opt.Type.(type) {
	case strictjson.Integer:
		return o.Uint(opt.Name)
	case strictjson.Number:
		return o.Float(opt.Name)
	case strictjson.Bool:
		return o.Bool(opt.Name)
	default:
		return o.Text(opt.Name)
	}
}
