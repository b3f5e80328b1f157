package job

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// inParallel calls do for 0 to n-1 on all processors that Go may use. A panic of do panics in the caller.
func inParallel(n int, do func(int)) {
	var (
		next  atomic.Int64
		cause atomic.Value
		group sync.WaitGroup
	)
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			defer func() {
				if failed := recover(); failed != nil {
					cause.CompareAndSwap(nil, panicked{failed, debug.Stack()})
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	group.Wait()
	if failed := cause.Load(); failed != nil {
		panic(failed)
	}
}

// panicked is a panic of another goroutine, with its stack.
type panicked struct {
	cause any
	stack []byte
}

func (p panicked) String() string { return fmt.Sprintf("%v\n%s", p.cause, p.stack) }
