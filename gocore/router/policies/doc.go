// Package policies has the routing modes of the field besides Dynamo's: those of load balancers, of SGLang's gateway
// (sglang_), of Shepherd model gateway (smg_) and of vLLM's router (vllm_).
//
// Every mode is a rule: a function of the request, of the workers' loads and of what the rule remembers of earlier
// decisions. All else is the same for all of them and in pool.go: who is in flight where, workers that come and go,
// several replicas of the router that do not know of each other's requests, loads that are only polled now and then.
//
//	Submit -> rule.choose(view, request, draw) -> worker -> rule.sent
//	Free   -> rule.ended
//
// choose changes nothing, and asks draw for every random number. Tests use that: they try all draws, and so know the
// set of workers that a rule allows (decisions_test.go compares it with what the real routers did).
//
// Rules were written from documents and from observations of the real routers as black boxes; docs/routers.md says
// which of them were compared with decisions of the real ones, and how far they agree.
//
// To add one: a file with a type that implements rule, and a row in table.go.
package policies
