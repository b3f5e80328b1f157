// Package engineargs reads the JSON object that describes one simulated engine.
//
// The object is flat, every field has a default, and partial objects are normal:
//
//	{"block_size": 16, "num_gpu_blocks": 2048, "max_num_seqs": null}
//
// Users know it from --extra-engine-args and from the Python class MockEngineArgs. One table, fields.go with
// nested.go (host.go and storage.go for host_cache), knows every field of it: name, type, range, default, description,
// whether null means something, with which engines, schedulers and roles it has an effect, and what this build does
// with it. There are these answers to the last question:
//
//	applied   it becomes part of Args
//	liveOnly  applied on live workers; without effect offline: one warning line names all such fields
//	startUp   applied on live workers and in runs with a planner; without effect otherwise
//	plannedOnly  applied in runs with a planner; without effect otherwise
//	offload   without effect offline, refused on live workers; but num_g2_blocks and its bandwidths are applied with an
//	          engine's own scheduler, which refuses the others
//	hostBlocks applied with an engine's own scheduler; refused otherwise
//	silent    accepted and ignored, as in the reference
//
// Of applied fields, values whose feature is not built yet are refused, because ignoring them would simulate something
// else. Where the choice of engine, role or timing model leaves a field without effect, a warning names it, too.
//
// # Order of checks
//
// Parse returns the first group of complaints it meets:
//
//  1. syntax, types, unknown and duplicate keys (package strictjson), then nulls and unknown words
//  2. worker_type together with its old aliases is_prefill and is_decode
//  3. values outside their range, all of them together
//  4. fields that contradict each other, the first one only
//  5. features that are not built yet, all of them together
//
// # Departures from the reference
//
// Three keys are accepted that the reference does not know: num_gpu_blocks_override (another spelling of
// num_gpu_blocks), watermark and eviction_backend. In nested objects, too, unknown keys and values out of
// range are errors. A block size that would crash the reference in the
// middle of a run is refused here.
//
// # What is generated
//
// "go generate ./gocore/engineargs" writes, from the table: python/dynamo/_core/engine_args_generated.json, from which
// the Python classes check their arguments without loading this code; python/dynamo/_shell/engine_fields.py with the
// types for type checkers and the classes of nested objects; the argument list in the docstring of MockEngineArgs;
// and docs/reference/engine-arguments.md. A test fails while one of them is stale.
package engineargs
