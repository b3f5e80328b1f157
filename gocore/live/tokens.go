package live

import (
	"golang.org/x/sync/semaphore"

	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/wire"
)

// maxTokens is how many tokens the requests of a process may have together, prompts and answers: 1 GiB of them.
const maxTokens = 256 << 20

// tokens bounds the tokens of all requests that are being served. The workers of a process share it.
type tokens struct{ left *semaphore.Weighted }

func newTokens(n int) tokens { return tokens{semaphore.NewWeighted(int64(n))} }

// take counts the tokens of a request until free. If there are too many, it answers with an error and reports false.
func (t tokens) take(n int, reply plane.Reply) bool {
	if t.left.TryAcquire(int64(n)) {
		return true
	}
	if reply.Accept() == nil {
		reply.Problem(wire.Problem{Message: "the requests of this process have as many tokens as it can hold",
			Type: "Overloaded", Code: 529})
		_ = reply.Finish()
	}
	return false
}

func (t tokens) free(n int) { t.left.Release(int64(n)) }
