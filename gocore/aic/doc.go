// Package aic knows how to ask the AIC SDK (the Python package aiconfigurator), which predicts how long engines compute
// on real GPUs: what a model of it is described by, and the questions and answers in JSON.
//
// The SDK lives in Python. A run never calls it: it asks and waits, and the caller of the run answers.
//
//	Client.Open       {"open": {backend, system, version, model, sizes, data types}} -> {"session": 1,
//	                  "version": "0.19.0", "alias": the SDK's name of the model, "experts": true, "weights": "fp8"}
//	Client.PoolBlocks {"capacity": {session, block_size, ...}}                       -> {"blocks": 17796}
//	Client.KVBytes    {"kv_bytes": {session}}                                        -> {"bytes": 131072}
//	Client.Predict    {"predict": {session, questions: [[kind, batch, tokens, prefix]]}} -> {"ms": [3.86], "errors": {}}
//	                  anything                                                       -> {"error": "why not"}
//
// A session is one Config, and Python keeps it for the life of the process. Kind is 0 for prefill and 1 for decode, as
// in package timing, and 2 and 3 for the expert layers of each, if the session has "experts"; a prediction of null ms
// has its reason under its index in errors.
//
// Two places describe a session, with the same names: the fields aic_* of engine arguments, for the durations of
// passes, and an object of its own (Parse), for a router that guesses when a prompt will be through. Python's class
// AicPerfConfig checks the latter from a copy of the table in python/dynamo/_core/aic_perf_config_generated.json; run
// "go generate ./gocore/aic" after a change.
//
// Read config.go first, then ask.go.
package aic
