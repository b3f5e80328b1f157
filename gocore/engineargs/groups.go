package engineargs

import (
	"fmt"

	"dynosim/gocore/strictjson"
)

// Groups are the KV cache groups of vLLM beside the one of full attention, which are alike. The zero value has none.
type Groups struct {
	Beside int  // how many there are
	Linear bool // states of linear attention; otherwise sliding windows
	Window int  // tokens
	// Retention selects which of their blocks are registered: those at the end of a prompt (0), all (RetainAll), or, as
	// a number of tokens, those at the end of a prompt and at each multiple of it.
	Retention int
}

// Run returns how many blocks a prefix needs at its end in each of the groups beside the first, so that a request can
// go on from there: those that a window sees, or one state. A prefix of fewer blocks needs all of them.
func (g Groups) Run(blockSize int) int {
	switch {
	case g.Beside == 0:
		return 0
	case g.Linear:
		return 1
	}
	return (g.Window - 1 + blockSize - 1) / blockSize
}

// LayerGroups are the groups of layers of an engine beside the one of full attention, whether they share its pool, as
// vLLM's do, or have one of their own, as SGLang's window. The zero value has none.
type LayerGroups struct {
	Beside int
	Run    int // blocks that a prefix needs at its end in each of them
	Linear bool
	Window int // tokens
}

// LayerGroups returns the groups of layers of an engine.
func (a *Args) LayerGroups() LayerGroups {
	if w := a.SGLang.Window; w.Blocks > 0 {
		return LayerGroups{Beside: 1, Run: (w.Tokens + a.BlockSize - 1) / a.BlockSize, Window: w.Tokens}
	}
	g := a.VLLM.Groups
	return LayerGroups{Beside: g.Beside, Run: g.Run(a.BlockSize), Linear: g.Linear, Window: g.Window}
}

// RetainAll registers every block of every group.
const RetainAll = -1

const (
	fullGroup   = "full"
	windowGroup = "sliding_window"
	linearGroup = "linear"
)

var groupKinds = []string{fullGroup, windowGroup, linearGroup}

// maxGroups is the largest number of groups: a block has six bits for its own. maxGroupBlock bounds their blocks, in
// tokens.
const (
	maxGroups     = 64
	maxGroupBlock = 1 << 16
)

// groups returns the groups of layers, which checkGroups has checked.
func groups(o *strictjson.Object) Groups {
	if named(o).rules != VLLMOwn { // SGLang's window has a pool of its own
		return Groups{}
	}
	list := o.Objects("kv_cache_groups")
	if len(list) < 2 {
		return Groups{}
	}
	g := Groups{Beside: len(list) - 1, Linear: list[1].Text("type") == linearGroup}
	if !g.Linear {
		g.Window = list[1].Int("window")
	}
	switch {
	case o.Given("prefix_cache_retention_interval"):
		g.Retention = o.Int("prefix_cache_retention_interval")
	case o.Null("prefix_cache_retention_interval") || named(o).release < VLLM033:
		g.Retention = RetainAll
	}
	return g
}

// checkGroups refuses groups that vLLM's rules are not known for, and settings without them.
func checkGroups(o *strictjson.Object) error {
	const name, retention = "kv_cache_groups", "prefix_cache_retention_interval"
	if s := named(o); o.Given(name) && s.rules == SGLangOwn {
		return checkWindowPool(o)
	} else if o.Given(name) && s.rules != VLLMOwn {
		want := `scheduler "vllm", "vllm-0.33", "vllm-0.28", "sglang" or "sglang-0.5" with them`
		return &strictjson.FieldError{Field: name, Got: "groups with scheduler " + s.name, Want: want}
	}
	if o.Given(retention) {
		switch interval := o.Int(retention); {
		case named(o).rules == VLLMOwn && named(o).release < VLLM033:
			return mismatch(o, retention, "it left out with scheduler vllm-0.28, which keeps all blocks")
		case interval%blockSize(o) != 0:
			return mismatch(o, retention, fmt.Sprintf("0 or a multiple of block_size, %d", blockSize(o)))
		}
	}
	list := o.Objects(name)
	if o.Given(name) && (len(list) == 0 || len(list) > maxGroups) {
		return &strictjson.FieldError{Field: name, Got: fmt.Sprintf("%d groups", len(list)),
			Want: fmt.Sprintf("1 to %d", maxGroups)}
	}
	if ranks := o.Int("dp_size"); len(list) > 1 && ranks > 1 {
		return mismatch(o, "dp_size", "1 with kv_cache_groups")
	}
	for i, g := range list {
		if err := checkGroup(list, i); err != nil {
			return err
		}
		if g.Given("num_blocks") {
			field := fmt.Sprintf("%s[%d].num_blocks", name, i)
			return &strictjson.FieldError{Field: field, Got: g.Shown("num_blocks"),
				Want: "it left out: with vLLM all groups share the pool of num_gpu_blocks"}
		}
		if window := g.Text("type") == windowGroup; window != g.Given("window") {
			field := fmt.Sprintf("%s[%d].window", name, i)
			if window {
				return &strictjson.FieldError{Field: field, Got: "nothing", Want: "the tokens that the window sees"}
			}
			return &strictjson.FieldError{Field: field, Got: g.Shown("window"),
				Want: "it left out with type " + g.Text("type")}
		}
	}
	return nil
}

// checkGroup refuses a group that does not fit those before it: one of full attention comes first, the others are
// alike.
func checkGroup(list []*strictjson.Object, i int) error {
	kind := list[i].Text("type")
	field := fmt.Sprintf("kv_cache_groups[%d].type", i)
	switch {
	case i == 0 && kind != fullGroup:
		return &strictjson.FieldError{Field: field, Got: kind,
			Want: "full: models without a layer of full attention are not simulated"}
	case i > 0 && kind == fullGroup:
		return &strictjson.FieldError{Field: field, Got: kind,
			Want: "sliding_window or linear: one group of full attention is simulated"}
	case i > 1 && kind != list[1].Text("type"):
		return &strictjson.FieldError{Field: field, Got: kind + " beside " + list[1].Text("type"),
			Want: "all groups after the first of one type"}
	case i > 1 && kind == windowGroup && list[i].Shown("window") != list[1].Shown("window"):
		want := fmt.Sprintf("%s, as the window before: windows of two sizes are not simulated", list[1].Shown("window"))
		return &strictjson.FieldError{Field: fmt.Sprintf("kv_cache_groups[%d].window", i), Got: list[i].Shown("window"),
			Want: want}
	}
	return nil
}

// windowPool returns the pool of the window, which checkWindowPool has checked.
func windowPool(o *strictjson.Object) WindowArgs {
	list := o.Objects("kv_cache_groups")
	if named(o).rules != SGLangOwn || len(list) < 2 {
		return WindowArgs{}
	}
	return WindowArgs{Blocks: list[1].Int("num_blocks"), Tokens: list[1].Int("window")}
}

// checkWindowPool refuses groups that SGLang's rules are not known for: one of full attention comes first, and one with
// a sliding window and a pool of its own may follow.
func checkWindowPool(o *strictjson.Object) error {
	const name = "kv_cache_groups"
	list, scheduler := o.Objects(name), named(o).name
	if len(list) == 0 || len(list) > 2 {
		return &strictjson.FieldError{Field: name, Got: fmt.Sprintf("%d groups", len(list)),
			Want: "1 or 2 with scheduler " + scheduler}
	}
	for i, kind := range []string{fullGroup, windowGroup}[:len(list)] {
		if got := list[i].Text("type"); got != kind {
			return &strictjson.FieldError{
				Field: fmt.Sprintf("%s[%d].type", name, i), Got: got,
				Want: fmt.Sprintf("%s: with scheduler %s one of full attention and one with a sliding window are simulated",
					kind, scheduler),
			}
		}
		for _, m := range [][2]string{{"window", "the tokens that the window sees"},
			{"num_blocks", "the blocks of the window layers' own pool"}} {
			member, meaning := m[0], m[1]
			field := fmt.Sprintf("%s[%d].%s", name, i, member)
			switch given := list[i].Given(member); {
			case given && i == 0:
				return &strictjson.FieldError{Field: field, Got: list[i].Shown(member),
					Want: "it left out with type full"}
			case !given && i == 1:
				return &strictjson.FieldError{Field: field, Got: "nothing", Want: meaning}
			}
		}
	}
	nested := o.Object("sglang")
	switch {
	case len(list) == 2 && o.Object("host_cache") != nil:
		return &strictjson.FieldError{Field: name, Got: "2 groups", Want: "one with host_cache"}
	case len(list) == 2 && nested != nil && nested.Given("enable_mixed_chunk") && nested.Bool("enable_mixed_chunk"):
		return &strictjson.FieldError{Field: name, Got: "2 groups",
			Want: "one with sglang.enable_mixed_chunk, whose runs with windows are not recorded"}
	}
	return nil
}
