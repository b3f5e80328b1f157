// Package strictjson decodes one JSON object that a user wrote, and refuses what can only be a mistake: text
// after the object, duplicate keys, unknown keys, values of another type.
//
// A caller lists the keys it knows in a Schema, decodes, and reads the values by name:
//
//	schema := strictjson.Schema{Fields: []strictjson.Field{
//		{Name: "num_workers", Type: strictjson.Integer{Min: 1}, Default: 1},
//		{Name: "router_mode", Type: strictjson.Enum{Choices: []string{"round_robin", "kv_router"}}, Default: "round_robin"},
//		{Name: "sla_ttft_ms", Type: strictjson.Number{}},
//	}}
//	o, err := strictjson.Decode(text, schema)
//	if err != nil {
//		return err
//	}
//	if err := strictjson.Join(o.RangeErrors()); err != nil {
//		return err
//	}
//	workers := o.Int("num_workers")
//
// # Three groups of errors
//
// Errors come in the order in which a user would correct them:
//
//  1. Syntax errors, duplicate keys, unknown keys and wrong types, in the order of the text. The first
//     one is returned alone, because the meaning of the text after it is uncertain.
//  2. Explicit nulls where null means nothing, missing required keys and words outside a list of choices,
//     in the order of the schema. Again the first one alone.
//  3. Values outside their range: RangeErrors returns all of them, so that one attempt shows them all.
//     They are a separate call because a caller may have checks of its own between steps 2 and 3, or
//     range rules of its own to report in the same line.
//
// Every error names the field, what was found and what is allowed: "max_num_seqs: got 0, want an integer >= 1".
// Fields of nested objects are named by their path, as in "sglang.page_size".
//
// # Numbers
//
// Integers are exact up to 2^64-1 and never pass through a float: 16.0 and 1e3 are not integers. Numbers
// are always finite. JSON cannot write NaN or an infinity, so a program that passes values on may send
// the strings "nan", "inf" and "-inf" (Schema.NonFinite); they are refused like any value out of range,
// with the text that the user expects: "got nan, want a finite number > 0".
//
// Read schema.go first, then decode.go, then object.go.
package strictjson
