package engineargs

import (
	"slices"

	"dynosim/gocore/strictjson"
)

// Filled returns an object that Parse accepts with its defaults filled in, so that Parse of it gives the same engine.
// Fields that have no effect on an offline replay are left out unless they are given, and so is the size of a pool that
// is to be estimated.
func Filled(text string) (map[string]any, error) {
	o, err := decode(text)
	if err != nil {
		return nil, err
	}
	filled := map[string]any{}
	for _, f := range table {
		_, nested := f.Type.(strictjson.Nested)
		switch {
		case !o.Given(f.Name) && leftToProfile(o, f.Name): // a default would win over the profile
		case nested || f.use == silent || slices.Contains(spelledAnew, f.Name):
		case o.Null(f.Name) && f.Default != nil: // no limit
			filled[f.Name] = nil
		case o.Given(f.Name) || f.Default != nil && inVain(o, f, offline) == "":
			filled[f.Name] = o.Value(f.Name)
		}
	}
	if filled["async_scheduling"] == true {
		filled["async_scheduling"] = async(o)
	}
	fillSpelledAnew(filled, o)
	for _, name := range []string{"trtllm", "reasoning", "host_cache"} {
		if nested := o.Object(name); nested != nil {
			filled[name] = given(nested)
		}
	}
	return filled, nil
}

// spelledAnew are the fields with aliases, and with defaults that depend on others.
var spelledAnew = []string{"worker_type", "is_prefill", "is_decode", "block_size", "num_gpu_blocks",
	"num_gpu_blocks_override"}

func fillSpelledAnew(filled map[string]any, o *strictjson.Object) {
	filled["worker_type"] = workerType(o).String()
	filled["block_size"] = blockSize(o)
	if !estimatesPool(o) && !leftToProfile(o, "num_gpu_blocks") {
		filled["num_gpu_blocks"] = numGPUBlocks(o)
	}
	nested := map[string]any{}
	if o.Object("sglang") != nil {
		nested = given(o.Object("sglang"))
	}
	if engineType(o) == SGLang {
		a := sglang(o)
		nested["schedule_policy"] = policyNames[FCFS]
		if a.Policy == LPM {
			nested["schedule_policy"] = "lpm"
		}
		nested["page_size"] = blockSize(o)
		nested["max_prefill_tokens"] = a.MaxPrefillTokens
		nested["chunked_prefill_size"] = a.ChunkedPrefillSize
		nested["clip_max_new_tokens"] = a.ClipMaxNewTokens
		nested["schedule_conservativeness"] = a.Conservativeness
		nested["reference_quirks"] = a.ReferenceQuirks
	}
	if len(nested) > 0 {
		filled["sglang"] = nested
	}
}

// given lists the members of a nested object that have a value.
func given(o *strictjson.Object) map[string]any {
	members := map[string]any{}
	for _, name := range o.Names() {
		if o.Given(name) {
			members[name] = o.Value(name)
		}
	}
	return members
}
