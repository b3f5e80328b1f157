package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/router"
	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/tokens"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
)

// servedModel describes one model of a server.
type servedModel struct {
	name, path string
	cache      string // the folder of the Hugging Face cache
	pools      []poolSpec
	routing    router.Mode
	router     router.Config
	seed       uint64
	maxLength  int // 0 for what the pool holds
	adapters   []string
	responses  answers.Mode
	recording  string // file, "" for none
	standard   int    // tokens of an answer if the request asks for no number
	kvType     string
	python     string // that runs tokenizers
	helpers    int    // processes of it
	warnings   []string
}

// poolSpec is workers that are alike.
type poolSpec struct {
	args    engineargs.Args
	workers int
}

// ofServer are the options of the process as a whole: those of one model cannot say them.
var ofServer = []string{
	"standalone", "http_host", "http_port", "listen_host", "models", "inject_errors", "api_key", "api_key_file", "tls_cert", "tls_key", "max_queue",
	"max_body_bytes", "max_connections", "request_timeout", "environment",
}

// parseModels reads the models that a description asks for: each is the description with the members that the list has for it.
func parseModels(text string, o *strictjson.Object, env environment) ([]servedModel, error) {
	if o.Text("models") == "" {
		m, err := parseServed(o, env)
		return []servedModel{m}, err
	}
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(o.Text("models")), &entries); err != nil || len(entries) == 0 {
		return nil, &strictjson.FieldError{Field: "models", Got: o.Shown("models"), Want: "a list of at least one object with options of a model"}
	}
	var base map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &base); err != nil {
		return nil, err
	}
	delete(base, "models")
	var models []servedModel
	names := map[string]bool{}
	for i, entry := range entries {
		m, err := parseEntry(base, entry, env)
		if err != nil {
			return nil, fmt.Errorf("models: %d: %w", i, err)
		}
		for _, name := range append([]string{m.name}, m.adapters...) {
			if names[name] {
				return nil, fmt.Errorf("models: %d: model_name: there are two models or adapters %q", i, name)
			}
			names[name] = true
		}
		models = append(models, m)
	}
	return models, nil
}

// parseEntry reads one model of a list. An option that takes JSON text may have the object itself.
func parseEntry(base, entry map[string]json.RawMessage, env environment) (servedModel, error) {
	all := maps.Clone(base)
	for name, value := range entry {
		if slices.Contains(ofServer, name) {
			return servedModel{}, fmt.Errorf("%s: concerns the whole server, give it beside models", name)
		}
		if len(value) > 0 && value[0] == '{' {
			value, _ = json.Marshal(string(value))
		}
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		return servedModel{}, err
	}
	o, err := decode(string(text))
	if err != nil {
		return servedModel{}, err
	}
	return parseServed(o, env)
}

// responseModes are the choices of response_mode.
var responseModes = map[string]answers.Mode{"random": answers.Random, "echo": answers.Echo, "recorded": answers.Recorded}

func parseServed(o *strictjson.Object, env environment) (m servedModel, err error) {
	m = servedModel{
		path: o.Text("model_path"), name: o.Text("model_name"), cache: card.HubCache(env.get), routing: findMode(o.Text("router_mode")),
		seed: o.Uint("seed"), adapters: words(o.Text("lora_modules")), responses: responseModes[o.Text("response_mode")],
		recording: o.Text("response_file"), standard: o.Int("default_max_tokens"),
		python: o.Text("tokenizer_python"), helpers: o.Int("tokenizer_processes"),
	}
	if m.path == "" {
		m.path = tokens.BuiltinBytes
	}
	if m.name == "" {
		m.name = m.path
	}
	if o.Given("max_model_len") {
		m.maxLength = o.Int("max_model_len")
	}
	switch recorded := m.responses == answers.Recorded; {
	case recorded && m.recording == "":
		return m, &strictjson.FieldError{Field: "response_file", Got: "nothing", Want: "the file with answers for response_mode recorded"}
	case !recorded && m.recording != "":
		m.warnings = append(m.warnings, "response_file has no effect without response_mode recorded")
	}
	if err := m.parseRouter(o); err != nil {
		return m, err
	}
	return m, m.parsePools(o)
}

func (m *servedModel) parseRouter(o *strictjson.Object) error {
	config, warnings, err := router.ParseConfig(o.Text("router_config"))
	if err != nil {
		return fmt.Errorf("router_config: %w", err)
	}
	if config.EstimatePrefill {
		return fmt.Errorf("router_config: router_prefill_load_model: not built for a server, leave it out")
	}
	if !m.routing.Configured {
		if !o.AtDefault("router_config") {
			warnings = append(warnings, "router_config has no effect without router_mode "+configuredModes())
		}
		config = router.DefaultConfig()
	}
	if !config.Seeded {
		config.Seed = m.seed
	}
	m.router = config
	m.warnings = append(m.warnings, warnings...)
	return nil
}

// parsePools finds out which workers there are.
func (m *servedModel) parsePools(o *strictjson.Object) error {
	prefill, decode := o.Int("num_prefill_workers"), o.Int("num_decode_workers")
	if prefill == 0 && decode == 0 {
		if err := m.addPool(o, "", "{}", o.Int("num_workers")); err != nil {
			return err
		}
		for _, name := range []string{"prefill_engine_args", "decode_engine_args"} {
			if !o.AtDefault(name) {
				m.warnings = append(m.warnings, name+" has no effect without num_prefill_workers and num_decode_workers")
			}
		}
		return nil
	}
	switch {
	case prefill == 0:
		return &strictjson.FieldError{Field: "num_prefill_workers", Got: "0", Want: "at least 1 with num_decode_workers"}
	case decode == 0:
		return &strictjson.FieldError{Field: "num_decode_workers", Got: "0", Want: "at least 1 with num_prefill_workers"}
	case o.Given("num_workers"):
		return fmt.Errorf("num_workers: cannot be combined with num_prefill_workers and num_decode_workers")
	}
	if err := m.addPool(o, engine.Prefill.String(), o.Text("prefill_engine_args"), prefill); err != nil {
		return err
	}
	if err := m.addPool(o, engine.Decode.String(), o.Text("decode_engine_args"), decode); err != nil {
		return err
	}
	p, d := m.pools[0].args, m.pools[1].args
	switch {
	case p.BlockSize != d.BlockSize:
		return fmt.Errorf("block_size: got %d of prefill workers and %d of decode workers, want the same", p.BlockSize, d.BlockSize)
	case p.EngineType != d.EngineType:
		return fmt.Errorf("engine_type: got %s of prefill workers and %s of decode workers, want the same", p.EngineType, d.EngineType)
	}
	return nil
}

// addPool reads the engine arguments of a pool: those of all workers, with what is different in this one.
func (m *servedModel) addPool(o *strictjson.Object, role, different string, workers int) error {
	text, err := engineText(o, role)
	if o.Given("extra_engine_args") {
		if vain := givenArgs(o); len(vain) > 0 && len(m.pools) == 0 {
			m.warnings = append(m.warnings, fmt.Sprintf("%v: no effect beside extra_engine_args, which replaces all of them", vain))
		}
		text, err = fileText(o, role)
	}
	if err != nil {
		return err
	}
	if text, err = overlay(text, different); err != nil {
		return fmt.Errorf("%s_engine_args: %w", role, err)
	}
	args, warnings, err := engineargs.ParseLive(text)
	if err == nil {
		err = worker.Check(args)
	}
	if err != nil {
		return fmt.Errorf("engine arguments: %w", err)
	}
	if args.Role.String() != role && role != "" || role == "" && args.Role != engine.Aggregated {
		return fmt.Errorf("worker_type: got %s, want num_prefill_workers and num_decode_workers instead", args.Role)
	}
	if args.AIC.Backend != "" && m.path == tokens.BuiltinBytes && args.AIC.Model == m.path {
		return &strictjson.FieldError{Field: "model_path", Got: "nothing", Want: "the model that AIC predicts for, or aic_model_path in extra_engine_args"}
	}
	if args.Role == engine.Prefill && args.Transfer.BytesPerToken == 0 && !o.Given(besideFile) {
		m.kvType = o.Text("kv_cache_dtype")
	}
	if len(m.pools) == 0 {
		m.warnings = append(m.warnings, warnings...)
	}
	m.pools = append(m.pools, poolSpec{args, workers * args.Live.Ranks})
	return nil
}

// overlay puts the members of one JSON object over those of another.
func overlay(text, over string) (string, error) {
	var base, more map[string]json.RawMessage
	if err := json.Unmarshal([]byte(over), &more); err != nil {
		return "", &strictjson.FieldError{Field: "value", Got: over, Want: "a JSON object"}
	}
	if len(more) == 0 || json.Unmarshal([]byte(text), &base) != nil {
		return text, nil
	}
	maps.Copy(base, more)
	merged, err := json.Marshal(base)
	return string(merged), err
}
