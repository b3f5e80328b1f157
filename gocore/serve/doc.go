// Package serve runs a process of live workers from its JSON description, which has the keys of the command line of
// python -m dynamo.mocker. Run reads as four steps:
//
//	Parse   JSON text and environment variables -> one typed Spec, at which all later steps look
//	load    what the Spec names: model, recorded answers, measured durations, predictions of the AIC SDK
//	check   warnings
//	serve   sockets, workers, and their end
//
//	table.go        the options: types, ranges, defaults, help
//	options.go      what single options mean
//	engine.go       engine arguments from their options, or from a file instead
//	environment.go  what environment variables mean
//	addresses.go    where sockets listen, and what others learn
//	discovery.go    where records are kept
//	spec.go, load.go, serve.go, status.go (/health, /live, /metrics), aic.go (questions for the SDK)
//
// Like package job it is a shell: it reads files, listens, logs. Everything that can be wrong with the input is found
// before frontends can see a worker.
package serve
