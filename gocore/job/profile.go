package job

import (
	"encoding/json"

	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing/profile"
)

// Profile reads measured durations as a run does. config is a JSON object with planner_profile_data, the path of a file
// or a folder. The result is a JSON object with the arrays of a table file by name: those made of a folder's samples,
// and none for a file, which has them itself. decode_itl is one row after the other. Errors have a Kind, as those of
// Run.
func Profile(config string) (arrays string, err error) {
	const name = "planner_profile_data"
	o, err := strictjson.Decode(config, strictjson.Schema{Fields: []strictjson.Field{
		{Name: name, Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true},
	}})
	if err != nil {
		return "", err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return "", err
	}
	grid, isFolder, err := profile.Open(o.Text(name))
	if err != nil {
		return "", err
	}
	if !isFolder {
		return "{}", nil
	}
	t := grid.Tables()
	text, err := json.Marshal(map[string][]float64{
		"prefill_isl":             t.PrefillISL,
		"prefill_ttft_ms":         t.PrefillTTFTMs,
		"decode_active_kv_tokens": t.DecodeActiveKVTokens,
		"decode_context_length":   t.DecodeContextLength,
		"decode_itl":              t.DecodeITLMs,
	})
	return string(text), err
}
