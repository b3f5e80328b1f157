package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
)

// engineArguments are those of the file that the description names, else of its own options.
func engineArguments(o *strictjson.Object) (args engineargs.Args, warnings []string, err error) {
	source := "engine arguments"
	var text string
	if o.Given("extra_engine_args") {
		source = "extra_engine_args"
		content, err := os.ReadFile(o.Text("extra_engine_args"))
		if err != nil {
			return args, nil, fmt.Errorf("extra_engine_args: %w", err)
		}
		text = string(content)
		if vain := givenArgs(o); len(vain) > 0 {
			warnings = append(warnings, strings.Join(vain, ", ")+": no effect beside extra_engine_args, which replaces all of them")
		}
	} else if text, err = engineText(o); err != nil {
		return args, nil, err
	}
	args, more, err := engineargs.ParseLive(text)
	if err != nil {
		return args, nil, fmt.Errorf("%s: %w", source, err)
	}
	if o.Bool("durable_kv_events") {
		args.Live.LocalIndexer = false
		warnings = append(warnings, "durable_kv_events is deprecated: routers then cannot ask for events that they have missed")
	}
	if !o.AtDefault("kv_cache_dtype") {
		more = append(more, "kv_cache_dtype has no effect on aggregated workers")
	}
	for _, opt := range options {
		if strings.HasPrefix(opt.Name, "aic_") && opt.engineArg == "" && o.Given(opt.Name) && opt.later == "" {
			more = append(more, opt.Name+" has no effect without aic_perf_model")
		}
	}
	return args, append(warnings, more...), nil
}

// givenArgs are the options that set engine arguments, of those given.
func givenArgs(o *strictjson.Object) (names []string) {
	for _, opt := range options {
		if opt.engineArg != "" && o.Given(opt.Name) {
			names = append(names, opt.Name)
		}
	}
	return names
}

// engineText is the object of engine arguments that the options amount to.
func engineText(o *strictjson.Object) (string, error) {
	object := map[string]any{"enable_local_indexer": !o.Bool("durable_kv_events")}
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
