// Package guard keeps a panic in a background goroutine from ending the Python interpreter that loaded this code.
//
// Go ends the whole process when any goroutine panics. Package live therefore starts no goroutine without [Func]: a
// panic becomes an error for [Watch], and the process of workers then fails with it. Goroutines that serve one request
// or one connection recover by themselves and fail only that.
package guard

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// watchers are those of the whole process, which an unrecovered panic would end: an invariant that is broken in one
// goroutine may concern all others.
var watchers struct {
	sync.Mutex
	next  int
	known map[int]func(error)
}

// Func returns f, with a panic in it reported to all watchers, or logged if there are none.
func Func(f func()) func() {
	return func() {
		defer func() {
			if cause := recover(); cause != nil {
				report(fmt.Errorf("internal: %v\n%s", cause, debug.Stack()))
			}
		}()
		f()
	}
}

func report(err error) {
	watchers.Lock()
	defer watchers.Unlock()
	if len(watchers.known) == 0 {
		slog.Error("a background task failed", "error", err)
	}
	for _, failed := range watchers.known {
		failed(err)
	}
}

// Watch calls failed with every panic of a guarded goroutine, until stop is called. failed must not block.
func Watch(failed func(error)) (stop func()) {
	watchers.Lock()
	defer watchers.Unlock()
	if watchers.known == nil {
		watchers.known = map[int]func(error){}
	}
	watchers.next++
	id := watchers.next
	watchers.known[id] = failed
	return func() {
		watchers.Lock()
		defer watchers.Unlock()
		delete(watchers.known, id)
	}
}
