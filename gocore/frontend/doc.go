// Package frontend stands between the HTTP server and workers that are other processes: it finds them, chooses one for
// each request, and takes its answer.
//
//	records of discovery --> roster.go: which models, workers, event channels there are
//	                     --> model.go: a model is served while it has the workers that it needs
//	backend.Call --> call.go: attempts --> pool.go, package routing: which worker
//	                                   --> exchange.go, send.go: over the request plane that its record names, and
//	                                       the answer back
//	events of workers --> follow.go: what they have cached, for the KV-aware router
//
// A request that fails before its first token is tried at other workers. One that breaks off later is, too, up to
// MigrationLimit times: its tokens become a part of the prompt. With prefill workers a request is served by two workers
// (split.go).
package frontend
