package models

import (
	_ "embed"
	"fmt"
	"strings"

	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
)

//go:embed table.json
var tableText string

// Table returns the models that are part of the program.
func Table() []Facts {
	list, err := parseTable(tableText)
	if err != nil {
		panic("models: table.json: " + err.Error())
	}
	return list
}

func count(name string) strictjson.Field {
	return strictjson.Field{Name: name, Type: strictjson.Integer{Max: 1 << 24}, Default: 0, NotNull: true}
}

func needed(name string, t strictjson.Type) strictjson.Field {
	return strictjson.Field{Name: name, Type: t, Required: true, NotNull: true}
}

var positive = strictjson.Integer{Min: 1, Max: 1 << 24}

// tableSchema describes table.json. The state of a linear layer has the members of one of two kinds.
var tableSchema = strictjson.Schema{Fields: []strictjson.Field{needed("models",
	strictjson.Objects{Fields: []strictjson.Field{
		needed("name", strictjson.Text{NonEmpty: true}), needed("source", strictjson.Text{NonEmpty: true}),
		needed("full_layers", positive), count("window_layers"), count("linear_layers"), count("window"),
		count("kv_heads"), count("head_dim"), count("latent"),
		count("state_key_heads"), count("state_key_dim"), count("state_value_heads"), count("state_value_dim"),
		count("mamba_heads"), count("mamba_head_dim"), count("mamba_groups"), count("mamba_state"), count("conv_kernel"),
		count("state_value_bytes"),
		needed("max_len", positive), needed("weights_gib", strictjson.Number{Max: 1e6}),
		needed("weights_source", strictjson.Text{NonEmpty: true}),
	}})}}

func parseTable(text string) ([]Facts, error) {
	o, err := strictjson.Decode(text, tableSchema)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return nil, err
	}
	var list []Facts
	for _, row := range o.Objects("models") {
		list = append(list, Facts{
			Name: row.Text("name"), Source: row.Text("source"),
			Full: row.Int("full_layers"), Window: row.Int("window_layers"), Linear: row.Int("linear_layers"),
			WindowTokens: row.Int("window"),
			KVHeads:      row.Int("kv_heads"), HeadDim: row.Int("head_dim"), Latent: row.Int("latent"), State: rowState(row),
			MaxLen: row.Int("max_len"), WeightsGiB: row.Float("weights_gib"), WeightsSource: row.Text("weights_source"),
		})
	}
	return list, nil
}

func rowState(row *strictjson.Object) State {
	kernel, size := row.Int("conv_kernel"), row.Int("state_value_bytes")
	switch {
	case row.Int("linear_layers") == 0:
		return State{}
	case row.Int("mamba_heads") > 0:
		return mambaState(row.Int("mamba_heads"), row.Int("mamba_head_dim"), row.Int("mamba_groups"),
			row.Int("mamba_state"), kernel, size)
	}
	return gatedState(row.Int("state_key_heads"), row.Int("state_key_dim"), row.Int("state_value_heads"),
		row.Int("state_value_dim"), kernel, size)
}

// Find returns the model of a name: as published, without its owner, or without the end that tells tunings apart.
// Capitals do not count.
func Find(name string) (Facts, error) {
	known := Table()
	var names []string
	for _, form := range []func(string) string{strings.ToLower, short, plain} {
		for _, f := range known {
			if form(f.Name) == form(name) {
				return f, nil
			}
		}
	}
	for _, f := range known {
		names = append(names, f.Name)
	}
	near := spelling.Nearest(name, names)
	if near != "" {
		near = ", such as " + near
	}
	return Facts{}, fmt.Errorf("a name that \"python -m dynamo.replay models\" lists%s, or model_config with the "+
		"config.json of the model", near)
}

// short returns a name without its owner.
func short(name string) string {
	name = strings.ToLower(name)
	return name[strings.LastIndexByte(name, '/')+1:]
}

// plain returns a name without what tells tunings apart, which have the same layers.
func plain(name string) string {
	name = short(name)
	for _, end := range []string{"-2507", "-2506", "-v0.1", "-instruct", "-it", "-thinking", "-bf16", "-fp8",
		"-nvfp4"} {
		name = strings.TrimSuffix(name, end)
	}
	return strings.Replace(strings.Replace(name, "meta-llama-", "llama-", 1), "nvidia-", "", 1)
}
