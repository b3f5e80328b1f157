// Package live is the facade that gopy binds as the Python module dynamo._core._live: live workers.
//
//	id := Open()          a process of workers that has not started
//	Serve(id, config)     blocks until they have ended
//	Answer(id, answer)    goes on with workers that have asked a question instead; blocks as Serve
//	Drain(id)             from any other thread: they end when they have answered the requests they have
//	Cancel(id)            they end at once
//	Close(id)             forgets them
//
// It is apart from package core because it brings clients of etcd, NATS and Kubernetes with it. See package border.
package live

import (
	"math"

	"dynosim/bindings/border"
	"dynosim/gocore/serve"
)

type workers struct {
	*border.Call
	stop *serve.Stop
}

var processes border.Registry[*workers]

// Open makes a process of workers and returns its id. Every id must be given to Close.
func Open() (id int64) {
	defer border.Quiet()
	return processes.Add(&workers{border.NewCall(math.MaxInt64), serve.NewStop()})
}

// Serve runs the live workers that config, a JSON object, describes (see serve.Run). It blocks until they have been
// asked to end and have ended. An id serves once. It returns questions instead, and goes on with Answer.
func Serve(id int64, config string) (text string, err error) {
	defer border.Guard(&err)
	w, err := processes.Find(id)
	if err != nil {
		return "", err
	}
	return w.Start(serve.Kind, func() (string, error) { return "", serve.Run(config, w.stop, w.Ask) })
}

// Answer gives workers the answer to their question, and blocks as Serve.
func Answer(id int64, answer string) (text string, err error) {
	defer border.Guard(&err)
	w, err := processes.Find(id)
	if err != nil {
		return "", err
	}
	return w.Call.Answer(answer)
}

// Ended returns 1 if workers have ended, even while Python still answers one of their questions.
func Ended(id int64) (ended int64) {
	defer border.Quiet()
	if w, err := processes.Find(id); err == nil && w.Over() {
		return 1
	}
	return 0
}

// Drain asks workers to end when they have answered the requests that they have. Unknown and finished ids are ignored.
func Drain(id int64) {
	defer border.Quiet()
	if w, err := processes.Find(id); err == nil {
		w.stop.Drain()
	}
}

// Cancel ends workers at once: it cuts requests off, but still removes the workers from discovery.
func Cancel(id int64) {
	defer border.Quiet()
	if w, err := processes.Find(id); err == nil {
		w.stop.Kill()
		w.Call.Cancel()
	}
}

// Close forgets workers. Those that still serve are not stopped by it; see Cancel.
func Close(id int64) {
	defer border.Quiet()
	processes.Remove(id)
}
