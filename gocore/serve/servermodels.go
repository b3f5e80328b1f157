package serve

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/deploy"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/router"
	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/openai"
	"dynosim/gocore/server/tokens"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
)

// servedModel describes one model of a server.
type servedModel struct {
	name, path string
	cache      string        // the folder of the Hugging Face cache
	pools      []deploy.Pool // a rank is a worker there
	routing    deploy.Routing
	lagMs      float64 // after which routers learn of caches
	// asked names the router in Python, "" for none, and settings are those from which it is made.
	asked, settings string
	seed            uint64
	maxLength       int // 0 for what the pool holds
	adapters        []string
	// maxAdapters is how many adapters an engine holds at once, which metrics show.
	maxAdapters int
	responses   answers.Mode
	recording   string // file, "" for none
	images      openai.Images
	// timing and policy name what is in Python, "" for none.
	timing, policy string
	// eventsPorts and replayPorts are where workers publish their KV events, at eventsHost; nil for nowhere.
	eventsPorts, replayPorts []int
	eventsHost               string
	record                   string // file that is written, "" for none
	standard                 int    // tokens of an answer if the request asks for no number
	kvType                   string
	python                   string // that runs tokenizers
	helpers                  int    // processes of it
	// toolCalls is the probability of calls where a request leaves them to the model, mostCalls how many there are at
	// most.
	toolCalls float64
	mostCalls int
	warnings  []string
}

// withServer is where options have no effect that only live workers look at.
const withServer = "with standalone"

// maxEngines bounds the engines of all models: ranks of workers.
const maxEngines = 1 << 16

// parseModels reads the models that a description asks for: each is the description with the members that the list has
// for it.
func parseModels(text string, o *strictjson.Object, env environment) ([]servedModel, error) {
	if !o.Given("models") {
		m, err := parseServed(o, env)
		if err != nil {
			return nil, err
		}
		return []servedModel{m}, m.check(map[string]bool{}, maxEngines)
	}
	var entries []map[string]jsontext.Value
	if err := json.Unmarshal([]byte(o.Text("models")), &entries); err != nil || len(entries) == 0 {
		return nil, &strictjson.FieldError{Field: "models", Got: o.Shown("models"),
			Want: "a list of at least one object with options of a model" + doubled(err)}
	}
	var base map[string]jsontext.Value
	if err := json.Unmarshal([]byte(text), &base); err != nil {
		return nil, err
	}
	delete(base, "models")
	var models []servedModel
	names, engines := map[string]bool{}, maxEngines
	written := map[string]bool{}
	for i, entry := range entries {
		m, err := parseEntry(base, entry, env)
		if err == nil {
			err = m.check(names, engines)
		}
		if err == nil && m.record != "" && written[m.record] {
			err = &strictjson.FieldError{Field: "record", Got: "the same file for two models",
				Want: "one for each, given in models"}
		}
		written[m.record] = true
		if err != nil {
			return nil, fmt.Errorf("models: %d: %w", i, err)
		}
		engines -= m.engines()
		for j, warning := range m.warnings {
			m.warnings[j] = fmt.Sprintf("models: %d: %s", i, warning)
		}
		models = append(models, m)
	}
	return models, nil
}

// doubled names the member that an object has twice, if that is what is wrong with it.
func doubled(err error) string {
	if syntax := new(jsontext.SyntacticError); errors.As(err, &syntax) &&
		errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
		return fmt.Sprintf(", each of them once; %s is there twice", syntax.JSONPointer.LastToken())
	}
	return ""
}

// check finds names that are taken, by the model itself or by those before it, and too many engines.
func (m *servedModel) check(taken map[string]bool, engines int) error {
	for i, name := range append([]string{m.name}, m.adapters...) {
		if !taken[name] {
			taken[name] = true
			continue
		}
		field := "model_name"
		if i > 0 {
			field = "lora_modules"
		}
		return fmt.Errorf("%s: got %q, want a name that no other model or adapter has", field, name)
	}
	if n := m.engines(); n > engines {
		return fmt.Errorf("num_workers, data_parallel_size: got %d engines in all, want at most %d for all models", n,
			maxEngines)
	}
	return nil
}

// engines returns the number of engines of all pools, ranks counted.
func (m *servedModel) engines() (n int) {
	for _, p := range m.pools {
		n += p.Workers * max(1, p.Args.Ranks)
	}
	return n
}

// parseEntry reads one model of a list. An option that takes JSON text may have the object itself.
func parseEntry(base, entry map[string]jsontext.Value, env environment) (servedModel, error) {
	if entry == nil {
		return servedModel{}, &strictjson.FieldError{Got: "null",
			Want: "an object with options of a model, which may be empty"}
	}
	all := maps.Clone(base)
	var vain []string
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		value := entry[name]
		opt, known := optionNamed(name)
		if opt.process || name == "environment" || name == "version" {
			return servedModel{}, fmt.Errorf("%s: concerns the whole server, give it beside models", name)
		}
		if known && opt.by&byServer == 0 {
			vain = append(vain, name+" has no effect "+withServer)
		}
		if value.Kind() == '{' {
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
	m, err := parseServed(o, env)
	m.warnings = append(m.warnings, vain...)
	return m, err
}

// responseModes are the choices of response_mode.
var responseModes = map[string]answers.Mode{"random": answers.Random, "echo": answers.Echo,
	"recorded": answers.Recorded}

func parseServed(o *strictjson.Object, env environment) (m servedModel, err error) {
	m = servedModel{
		path: o.Text("model_path"), name: o.Text("model_name"), cache: card.HubCache(env.get),
		seed: o.Uint("seed"), adapters: words(o.Text("lora_modules")), record: o.Text("record"),
		maxAdapters: o.Int("max_loras"),
		timing:      o.Text("timing_model"), policy: o.Text("scheduler_policy"),
		images:    openai.Images{Tokens: o.Int("image_tokens"), Tile: o.Int("image_tile")},
		responses: responseModes[o.Text("response_mode")],
		recording: o.Text("response_file"), standard: o.Int("default_max_tokens"),
		python: o.Text("tokenizer_python"), helpers: o.Int("tokenizer_processes"),
		toolCalls: o.Float("tool_call_probability"), mostCalls: o.Int("max_parallel_tool_calls"),
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
		return m, &strictjson.FieldError{Field: "response_file", Got: "nothing",
			Want: "the file with answers for response_mode recorded"}
	case !recorded && m.recording != "":
		m.warnings = append(m.warnings, "response_file has no effect without response_mode recorded")
	}
	if o.Given("lora_modules") && len(m.adapters) == 0 {
		return m, &strictjson.FieldError{Field: "lora_modules", Got: o.Shown("lora_modules"),
			Want: "at least one name, or leave it out"}
	}
	for _, name := range m.adapters {
		if err := openai.CheckAdapterName(name); err != nil {
			return m, fmt.Errorf("lora_modules: %w", err)
		}
	}
	if err := m.parseRouter(o); err != nil {
		return m, err
	}
	if err := m.parsePools(o); err != nil {
		return m, err
	}
	return m, cmp.Or(m.parseEventPorts(o), m.checkPython(o))
}

// checkPython refuses timing models and scheduler policies in Python where engines would not ask them.
func (m *servedModel) checkPython(o *strictjson.Object) error {
	for i := range m.pools {
		args := &m.pools[i].Args
		switch {
		case m.timing != "" && (args.TimingModel != engineargs.Default().TimingModel || args.AIC.Backend != ""):
			return &strictjson.FieldError{Field: "timing_model", Got: o.Shown("timing_model"),
				Want: "it left out, as the engine arguments choose the timing model " +
					cmp.Or(args.AIC.Backend, args.TimingModel)}
		case m.policy != "" && !worker.Traits(*args).Policies:
			return &strictjson.FieldError{
				Field: "scheduler_policy", Got: o.Shown("scheduler_policy"),
				Want: fmt.Sprintf("engine_type vllm or trtllm with scheduler dynamo with it: the one of %s asks nobody",
					args.SchedulerName()),
			}
		}
	}
	return nil
}

// lag is the option that says how late routers learn of caches.
const lag = "kv_event_lag_ms"

func (m *servedModel) parseRouter(o *strictjson.Object) (err error) {
	if o.Given("router") {
		return m.parseAsked(o)
	}
	mode := findMode(o.Text("router_mode"))
	if m.lagMs = o.Float(lag); m.lagMs > 0 && !mode.Configured && !mode.UsesEvents {
		return &strictjson.FieldError{
			Field: lag, Got: o.Shown(lag),
			Want: "router_mode " + configuredModes() + " with it: another router gets no cache events",
		}
	}
	var warnings []string
	if m.routing, warnings, err = deploy.ParseRouting(mode, o.Text("router_config"), m.seed); err != nil {
		return err
	}
	if m.routing.Given.EstimatePrefill {
		return fmt.Errorf("router_config: router_prefill_load_model: not built for a server, leave it out")
	}
	if !mode.Configured && mode.Settings == nil && !o.AtDefault("router_config") {
		warnings = append(warnings, "router_config has no effect without router_mode "+configuredModes())
	}
	m.warnings = append(m.warnings, warnings...)
	return nil
}

// parseAsked reads the options of a router in Python. Whether there is one of this name, Python has found out.
func (m *servedModel) parseAsked(o *strictjson.Object) error {
	m.asked, m.settings = o.Text("router"), o.Text("router_config")
	if !o.AtDefault("router_mode") {
		return &strictjson.FieldError{Field: "router_mode", Got: o.Shown("router_mode"),
			Want: "it left out with router " + m.asked}
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(m.settings), &settings); err != nil || settings == nil {
		return &strictjson.FieldError{Field: "router_config", Got: o.Shown("router_config"), Want: "an object"}
	}
	m.routing, m.lagMs = deploy.Routing{Mode: router.AskedMode, Config: router.DefaultConfig()}, o.Float(lag)
	m.routing.Config.Seed = m.seed
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
				m.warnings = append(m.warnings,
					name+" has no effect without num_prefill_workers and num_decode_workers")
			}
		}
		return nil
	}
	switch {
	case prefill == 0:
		return &strictjson.FieldError{Field: "num_prefill_workers", Got: "0",
			Want: "at least 1 with num_decode_workers"}
	case decode == 0:
		return &strictjson.FieldError{Field: "num_decode_workers", Got: "0",
			Want: "at least 1 with num_prefill_workers"}
	case o.Given("num_workers"):
		return fmt.Errorf("num_workers: cannot be combined with num_prefill_workers and num_decode_workers")
	}
	if err := m.addPool(o, engine.Prefill.String(), o.Text("prefill_engine_args"), prefill); err != nil {
		return err
	}
	if err := m.addPool(o, engine.Decode.String(), o.Text("decode_engine_args"), decode); err != nil {
		return err
	}
	if differ := deploy.Mismatch(m.pools[0].Args, m.pools[1].Args); differ != nil {
		return fmt.Errorf("%s: got %s of prefill workers and %s of decode workers, want the same", differ.Argument,
			differ.Prefill, differ.Decode)
	}
	return nil
}

// addPool reads the engine arguments of a pool: those of all workers, with what is different in this one.
func (m *servedModel) addPool(o *strictjson.Object, role, different string, workers int) error {
	text, err := engineText(o, role)
	if o.Given("extra_engine_args") {
		if vain := givenArgs(o); len(vain) > 0 && len(m.pools) == 0 {
			m.warnings = append(m.warnings,
				fmt.Sprintf("%v: no effect beside extra_engine_args, which replaces all of them", vain))
		}
		text, err = fileText(o, role)
	}
	if err != nil {
		return err
	}
	if different, err = engineargs.Flat(different); err != nil {
		return fmt.Errorf("%s_engine_args: %w", role, err)
	}
	if text, err = engineargs.Overlay(text, ownSpeed(different)); err != nil {
		return &strictjson.FieldError{Field: role + "_engine_args", Got: o.Shown(role + "_engine_args"),
			Want: "a JSON object without a key twice"}
	}
	args, warnings, err := engineargs.ParseServed(text)
	if err == nil {
		err = worker.Check(args)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", argumentsOf(o, role), err)
	case role == "" && args.Role != engine.Aggregated:
		return fmt.Errorf("worker_type: got %s, want num_prefill_workers and num_decode_workers instead", args.Role)
	case role != "" && args.Role.String() != role:
		return fmt.Errorf("%s: worker_type: got %s, want it left out: these are %s workers", argumentsOf(o, role),
			args.Role, role)
	}
	if args.AIC.Backend != "" && m.path == tokens.BuiltinBytes && args.AIC.Model == m.path {
		return &strictjson.FieldError{Field: "model_path", Got: "nothing",
			Want: "the model that AIC predicts for, or aic_model_path in extra_engine_args"}
	}
	if args.Role == engine.Prefill && args.Transfer.BytesPerToken == 0 && !o.Given(besideFile) {
		m.kvType = o.Text("kv_cache_dtype")
	}
	if len(m.pools) == 0 {
		m.warnings = append(m.warnings, warnings...)
	}
	m.pools = append(m.pools, deploy.Pool{Args: args, Workers: workers * args.Engines()})
	return nil
}

// ownSpeed returns arguments in which the time of a block stands for the bandwidth that workers have if nothing is
// said.
func ownSpeed(different string) string {
	var given map[string]jsontext.Value
	if json.Unmarshal([]byte(different), &given) != nil || given["kv_transfer_ms_per_block"] == nil ||
		given["kv_transfer_bandwidth"] != nil {
		return different
	}
	given["kv_transfer_bandwidth"] = jsontext.Value("0")
	text, err := json.Marshal(given)
	if err != nil {
		return different
	}
	return string(text)
}

// argumentsOf says where the engine arguments of a pool come from.
func argumentsOf(o *strictjson.Object, role string) string {
	switch {
	case role != "" && !o.AtDefault(role+"_engine_args"):
		return "engine arguments with " + role + "_engine_args"
	case o.Given("extra_engine_args"):
		return "extra_engine_args"
	default:
		return "engine arguments"
	}
}
