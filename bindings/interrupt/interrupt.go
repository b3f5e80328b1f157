// Package interrupt counts the Ctrl-C of a process whose signals belong to Python.
//
// Python interrupts only its main thread. A run in another thread has to stop, too, and learns of the interrupt here. A
// signal handler in C counts; it is installed before that of Python and calls it afterwards, so that nothing changes
// for Python. os/signal of Go cannot do that: it takes signals away from the earlier handler.
package interrupt

/*
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_long interrupts;
static atomic_int inside; // a handler installed later may call this one again
static struct sigaction former;

static void count(int number, siginfo_t *info, void *context) {
	int error = errno;
	if (atomic_exchange(&inside, 1) == 0) {
		atomic_fetch_add(&interrupts, 1);
		if (former.sa_flags & SA_SIGINFO) {
			former.sa_sigaction(number, info, context);
		} else {
			former.sa_handler(number);
		}
		atomic_store(&inside, 0);
	}
	errno = error;
}

// watch_interrupts puts count before the handler of SIGINT, unless it is there or the signal is ignored or ends the
// process.
static void watch_interrupts(void) {
	struct sigaction now;
	if (sigaction(SIGINT, NULL, &now) != 0) {
		return;
	}
	if (now.sa_flags & SA_SIGINFO ? now.sa_sigaction == count : now.sa_handler == SIG_DFL ||
		now.sa_handler == SIG_IGN) {
		return;
	}
	former = now;
	now.sa_sigaction = count;
	now.sa_flags |= SA_SIGINFO | SA_ONSTACK; // it may run on a thread of Go, whose stacks are small
	sigaction(SIGINT, &now, NULL);
}

static long count_interrupts(void) { return atomic_load(&interrupts); }
*/
import "C"

import "sync"

var mu sync.Mutex

// Count watches SIGINT from now on, and returns how often it has been handled since the first call. Signals that are
// ignored do not count.
func Count() int64 {
	mu.Lock()
	defer mu.Unlock()
	C.watch_interrupts()
	return int64(C.count_interrupts())
}
