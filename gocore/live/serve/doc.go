// Package serve runs a process of live workers from its JSON description, which has the keys of the command line of
// python -m dynamo.mocker.
//
//	options.go      the keys: types, ranges, defaults
//	engine.go       engine arguments from their flags, or from a file instead
//	aic.go          how long passes take, if the AIC SDK says it
//	environment.go  what environment variables decide
//	serve.go        Run: from the description to the last request
//	status.go       /health, /live, /metrics
//
// Like package job it is a shell: it reads files, listens, logs. Everything that can be wrong with the input is found before
// anybody can see a worker.
package serve
