// Command dynosim-serve is python -m dynamo.mocker --standalone as one binary that needs no Python: an
// OpenAI-compatible server with simulated engines. It has the same options; with --frontend it is that server before
// live workers.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"dynosim/gocore/serve"
)

// Exit codes.
const (
	failed      = 1
	badInput    = 2
	interrupted = 130
)

// version is that of the release. The linker writes it: make serve-binary.
var version string

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if !slices.Contains(args, "--frontend") {
		args = append([]string{"--standalone"}, args...)
	}
	text, err := serve.FromCommandLine(args, os.Environ(), release())
	if errors.Is(err, serve.ErrHelp) {
		fmt.Print("usage: dynosim-serve [options]\n\nBe an OpenAI-compatible server with simulated engines, or with "+
			"--frontend before live workers, see docs/serve.md.\n", serve.ServerHelp())
		return 0
	}
	if errors.Is(err, serve.ErrVersion) {
		fmt.Println("dynosim-serve", release())
		return 0
	}
	if err != nil {
		return report(err, badInput)
	}
	stop := serve.NewStop()
	interrupt := make(chan bool, 1)
	listen(stop, interrupt)
	if err := serve.Run(text, stop, noSDK); err != nil {
		if serve.Kind(err) == "failed" {
			return report(err, failed)
		}
		return report(err, badInput)
	}
	select {
	case <-interrupt:
		return interrupted
	default:
		return 0
	}
}

// release returns the version, or that of the module if go build knows it from git.
func release() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "of an unknown version"
}

// listen lets the first signal drain the server and the second one end it.
func listen(stop *serve.Stop, interrupt chan<- bool) {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) { // a shell starts the background jobs of a script so: Ctrl-C is not for them
			signal.Notify(signals, s)
		}
	}
	go func() {
		for n := 0; ; n++ {
			if <-signals == os.Interrupt {
				select {
				case interrupt <- true:
				default:
				}
			}
			if n > 0 {
				stop.Kill()
				continue
			}
			fmt.Fprintln(os.Stderr, "shutting down after the requests in flight; a second signal ends them at once")
			stop.Drain()
		}
	}()
}

// noSDK answers questions for the AIC SDK, which is a Python package.
func noSDK(string) (string, error) {
	return "", errors.New("predictions of the AIC SDK need Python: use python -m dynamo.mocker --standalone")
}

func report(err error, code int) int {
	fmt.Fprintln(os.Stderr, "dynosim-serve: error: "+strings.TrimSpace(err.Error()))
	return code
}
