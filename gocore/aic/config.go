package aic

import (
	"fmt"
	"math"
	"strings"

	"dynosim/gocore/speculation"
	"dynosim/gocore/strictjson"
)

// Config identifies a session: a model that a backend serves on GPUs of a system. It is comparable.
type Config struct {
	Backend, System, Model string
	Version                string // of the backend, "" for the default
	TP, AttentionDP        int    // at least 1
	MoETP, MoEEP           int    // 0 leaves it to the SDK
	Types                  DataTypes
	Drafts                 int // tokens that speculative decoding verifies in each step beside the first
}

// DataTypes are the data types of the parts of a model, by the SDK's names; "" leaves it to the SDK.
type DataTypes struct {
	GEMM, MoE, FMHA, KVCache, Comm string
}

// DefaultSystem is the GPU that engine arguments predict for unless they name one.
const DefaultSystem = "h200_sxm"

// backends are those about which more than the name is known.
var backends = map[string]struct {
	version string // the default
	memory  Memory
}{
	"vllm":   {"0.19.0", Memory{"gpu_memory_utilization", "of_total", 0.9}},
	"sglang": {"0.5.10", Memory{"mem_fraction_static", "of_total", 0.88}},
	"trtllm": {"1.3.0rc10", Memory{"free_gpu_memory_fraction", "of_free", 0.9}},
}

const otherVersion = "0.19.0"

// Memory is the word by which a backend learns the share of GPU memory for its KV pool.
type Memory struct {
	Field    string // among the engine arguments
	kind     string // as the SDK calls it
	Fraction float64
}

// Memory reports false for a backend of which that is not known.
func (c Config) Memory() (Memory, bool) {
	b, known := backends[c.Backend]
	return b.memory, known
}

// DefaultVersion returns the version that is asked for unless one is given.
func (c Config) DefaultVersion() string {
	if b, known := backends[c.Backend]; known {
		return b.version
	}
	return otherVersion
}

// Name describes the session of a config, whose version is known by then, for reports.
func (c Config) Name() string {
	parts := []string{"aic: " + c.Model, c.System, strings.TrimSpace(c.Backend + " " + c.Version),
		fmt.Sprintf("tp %d", c.TP)}
	add := func(label string, n, neutral int) {
		if n != neutral {
			parts = append(parts, fmt.Sprintf("%s %d", label, n))
		}
	}
	add("moe tp", c.MoETP, 0)
	add("moe ep", c.MoEEP, 0)
	add("attention dp", c.AttentionDP, 1)
	add("nextn", c.Drafts, 0)
	for _, t := range [][2]string{
		{"gemm", c.Types.GEMM}, {"moe", c.Types.MoE}, {"fmha", c.Types.FMHA}, {"kv cache", c.Types.KVCache},
		{"comm", c.Types.Comm},
	} {
		if t[1] != "" {
			parts = append(parts, t[0]+" "+t[1])
		}
	}
	return strings.Join(parts, ", ")
}

// size is how many GPUs something is spread over. 0 is only allowed where nothing is predicted: see Check.
var size = strictjson.Integer{Max: math.MaxInt32}

// Fields are the keys of a description, in the order of the Python constructor. Engine arguments have them among
// others.
var Fields = []strictjson.Field{
	{Name: "aic_backend", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true,
		Doc: "The engine: ``\"vllm\"``, ``\"sglang\"`` or ``\"trtllm\"``."},
	{Name: "aic_system", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true,
		Doc: "The GPU, such as ``\"h200_sxm\"``."},
	{Name: "aic_model_path", Type: strictjson.Text{NonEmpty: true, Path: true}, Required: true, NotNull: true,
		Doc: "A model that the SDK knows, or a folder with its config.json."},
	{Name: "aic_tp_size", Type: size, Default: 1, Doc: "Tensor parallelism."},
	{Name: "aic_backend_version", Type: strictjson.Text{},
		Doc: "Version of the engine; None takes the version that the SDK is asked for by default."},
	{Name: "aic_moe_tp_size", Type: size, Doc: "Tensor parallelism of experts."},
	{Name: "aic_moe_ep_size", Type: size, Doc: "Expert parallelism."},
	{Name: "aic_attention_dp_size", Type: size, Doc: "Data parallelism of attention."},
	{Name: "aic_nextn", Type: strictjson.Integer{Min: 1, Max: speculation.MaxDrafts},
		Doc: "Draft tokens of speculative decoding, 1 to 5."},
	{Name: "aic_nextn_accept_rates", Type: strictjson.Text{},
		Doc: "Acceptance rates of the draft tokens, as text with commas."},
	{Name: "aic_gemm_dtype", Type: strictjson.Text{},
		Doc: "Data type of matrix products; None takes that of the model."},
	{Name: "aic_moe_dtype", Type: strictjson.Text{}, Doc: "Data type of experts; None takes that of the model."},
	{Name: "aic_fmha_dtype", Type: strictjson.Text{}, Doc: "Data type of attention; None takes that of the model."},
	{Name: "aic_kv_cache_dtype", Type: strictjson.Text{},
		Doc: "Data type of the KV cache; None takes that of the model."},
	{Name: "aic_comm_dtype", Type: strictjson.Text{}, Doc: "Data type of communication; None takes that of the model."},
}

// Parse reads the object that describes the session of a router. The warnings are for the user, one line each. Errors
// are those of package strictjson, joined when there are several; none of them says which argument held the object.
func Parse(text string) (c Config, warnings []string, err error) {
	o, err := strictjson.Decode(text, strictjson.Schema{Fields: Fields})
	if err != nil {
		return Config{}, nil, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return Config{}, nil, err
	}
	if err := Check(o); err != nil {
		return Config{}, nil, err
	}
	if err := checkRates(o); err != nil {
		return Config{}, nil, err
	}
	if o.Given("aic_nextn_accept_rates") {
		warnings = append(warnings, "aic_nextn_accept_rates has no effect on how long prompts take")
	}
	return Of(o), warnings, nil
}

// Check refuses sizes of 0 in an object that describes a session.
func Check(o *strictjson.Object) error {
	for _, name := range []string{"aic_tp_size", "aic_moe_tp_size", "aic_moe_ep_size", "aic_attention_dp_size"} {
		if o.Given(name) && o.Int(name) == 0 {
			return &strictjson.FieldError{Field: name, Got: "0", Want: "an integer >= 1"}
		}
	}
	return nil
}

func checkRates(o *strictjson.Object) error {
	const name = "aic_nextn_accept_rates"
	switch {
	case !o.Given(name):
		return nil
	case !o.Given("aic_nextn"):
		return &strictjson.FieldError{Field: name, Got: o.Shown(name), Want: "aic_nextn set as well"}
	}
	if _, err := speculation.ParseRates(o.Text(name), o.Int("aic_nextn")); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Of returns the session that a checked object describes; its schema has all of Fields.
func Of(o *strictjson.Object) Config {
	c := Config{
		Backend: o.Text("aic_backend"), System: o.Text("aic_system"), Model: o.Text("aic_model_path"),
		Version:     strings.TrimSpace(o.Text("aic_backend_version")),
		TP:          max(1, o.Int("aic_tp_size")),
		AttentionDP: max(1, o.Int("aic_attention_dp_size")),
		MoETP:       o.Int("aic_moe_tp_size"),
		MoEEP:       o.Int("aic_moe_ep_size"),
		Types: DataTypes{
			GEMM: DataType(o, "aic_gemm_dtype"), MoE: DataType(o, "aic_moe_dtype"), FMHA: DataType(o, "aic_fmha_dtype"),
			KVCache: DataType(o, "aic_kv_cache_dtype"), Comm: DataType(o, "aic_comm_dtype"),
		},
		Drafts: o.Int("aic_nextn"),
	}
	if c.System == "" {
		c.System = DefaultSystem
	}
	return c
}

// DataType returns the SDK's name of a data type, "" for one of the words that say nothing.
func DataType(o *strictjson.Object, name string) string {
	switch word := strings.TrimSpace(o.Text(name)); strings.ToLower(word) {
	case "", "auto", "none", "null":
		return ""
	case "int4":
		return "int4_wo"
	default:
		return word
	}
}

// KernelsBeside returns the backend and data types, as engine arguments, in which a session differs from another one;
// "" if it differs in none of them.
func (c Config) KernelsBeside(own Config) string {
	var said []string
	add := func(name, kernel, own string) {
		if kernel != own {
			said = append(said, name+" "+kernel)
		}
	}
	add("aic_backend", c.Backend, own.Backend)
	add("aic_gemm_dtype", c.Types.GEMM, own.Types.GEMM)
	add("aic_moe_dtype", c.Types.MoE, own.Types.MoE)
	add("aic_fmha_dtype", c.Types.FMHA, own.Types.FMHA)
	return strings.Join(said, ", ")
}
