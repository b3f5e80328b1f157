// Package enginetest tests engines. Golden replays worked examples and compares them pass by pass, Shortcuts runs
// random workloads with and without the engine's shortcuts; both are for engines that follow an engine's own scheduler.
// Run replays examples of any engine; Recorder rebuilds from passes what becomes of requests, and Timeline shows it.
// CheckCancel takes requests out of any engine. Args parses arguments for tests of other packages, too.
package enginetest
