package core

import (
	"dynosim/gocore/live/serve"
)

// Serve runs the live workers that config, a JSON object, describes (see serve.Run). It blocks until they have been asked
// to end and have ended, and takes the one run of its id. Cancel ends them at once: it cuts requests off, but still removes
// what others would find of the workers.
func Serve(id int64, config string) (text string, err error) {
	defer guard(&err)
	r, err := lookup(id)
	if err != nil {
		return "", err
	}
	if !r.start() {
		return "", failure(kindInternal, "this run has been started before")
	}
	ended := make(chan error, 1)
	go func() { ended <- r.serve(config) }()
	select {
	case err = <-ended:
	case <-r.stopped:
		r.stop.Kill()
		err = <-ended
	}
	return "", err
}

// Drain asks workers to end when they have answered the requests that they have. Unknown and finished ids are ignored.
func Drain(id int64) {
	defer quiet()
	if r, err := lookup(id); err == nil {
		r.stop.Drain()
	}
}

// serve runs on the calling goroutine and turns errors and panics into errors for Python.
func (r *run) serve(config string) (err error) {
	defer guard(&err)
	if err := serve.Run(config, r.stop); err != nil {
		return failure(serve.Kind(err), err.Error())
	}
	return nil
}
