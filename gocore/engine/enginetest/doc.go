// Package enginetest tests engines that follow an engine's own scheduler. Golden replays worked examples and compares them
// pass by pass, Shortcuts runs random workloads with and without the engine's shortcuts.
package enginetest
