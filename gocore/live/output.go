package live

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/protocol/wire"
)

// output is the answer to a request: chosen when the request arrives, sent as the simulation emits its tokens.
type output struct {
	tokens []uint32
	finish string // why it ends where it does
}

// The range of the tokens of answers that are drawn.
const (
	firstToken = 1000
	lastToken  = 1999
)

// outputs chooses the answers to requests.
type outputs struct {
	standardLength int // tokens of an answer if the request names no number
	reasoning      *engineargs.Reasoning
	recorded       map[string][]uint32 // answers to repeat, by key
	engine         engineargs.Args     // which may end answers early
}

// length returns the largest number of tokens that a request gets.
func (o *outputs) length(request *wire.Request) int {
	return o.engine.Output(len(request.TokenIDs), o.asked(request))
}

// asked returns the largest number of tokens that a request allows.
func (o *outputs) asked(request *wire.Request) int {
	if planned, ok := o.planned(request); ok {
		return len(planned)
	}
	if most := request.StopConditions.MaxTokens; most != nil {
		return int(*most)
	}
	return o.standardLength
}

// replayAnnotation begins the annotation that names a recorded answer.
const replayAnnotation = "output_replay_id:"

// recordedKey returns the recorded answer that a request asks for, "" if it asks for none.
func recordedKey(request *wire.Request) string {
	for _, a := range request.Annotations {
		if key, found := strings.CutPrefix(a, replayAnnotation); found {
			return key
		}
	}
	return ""
}

func (o *outputs) planned(request *wire.Request) ([]uint32, bool) {
	planned, ok := o.recorded[recordedKey(request)]
	return planned, ok
}

// decide chooses the answer to a request.
func (o *outputs) decide(request *wire.Request, rng *rand.Rand) output {
	length := o.length(request)
	tokens, planned := o.planned(request)
	if !planned {
		tokens = o.draw(length, rng)
	}
	return cut(tokens[:length], request)
}

// draw draws length tokens; the first of them are marked as reasoning if that is configured.
func (o *outputs) draw(length int, rng *rand.Rand) []uint32 {
	tokens := make([]uint32, length)
	for i := range tokens {
		tokens[i] = firstToken + rng.Uint32N(lastToken-firstToken+1)
	}
	if r := o.reasoning; r != nil {
		if n := r.Tokens(length); n > 0 {
			tokens[0], tokens[n-1] = r.StartToken, r.EndToken
		}
	}
	return tokens
}

// cut ends an answer at the first token that fulfils a stop condition of the request. That token is sent: frontends
// know which of them to hide.
func cut(tokens []uint32, request *wire.Request) output {
	s := &request.StopConditions
	fewest := 0
	if s.MinTokens != nil {
		fewest = int(*s.MinTokens)
	}
	ends := func(token uint32) string {
		for _, list := range [][]uint32{s.StopTokenIDs, s.StopTokenIDsVisible, s.StopTokenIDsHidden} {
			if slices.Contains(list, token) {
				return wire.FinishStop
			}
		}
		if (s.IgnoreEOS == nil || !*s.IgnoreEOS) && slices.Contains(request.EOSTokenIDs, token) {
			return wire.FinishEOS
		}
		return ""
	}
	for i, token := range tokens {
		if i+1 < fewest {
			continue
		}
		if reason := ends(token); reason != "" {
			return output{tokens: tokens[:i+1], finish: reason}
		}
	}
	return output{tokens: tokens, finish: wire.FinishLength}
}

// check returns the reason why an engine with these arguments cannot serve a request, "" if it can.
func (o *outputs) check(request *wire.Request, args *engineargs.Args) string {
	prompt, length := len(request.TokenIDs), o.length(request)
	switch {
	case prompt == 0:
		return "token_ids: got none, want at least one"
	case length == 0:
		return "stop_conditions.max_tokens: got 0, want at least 1"
	}
	if needed := (prompt + length + args.BlockSize - 1) / args.BlockSize; needed > args.NumGPUBlocks {
		return fmt.Sprintf("prompt of %d + output of %d tokens need %d KV blocks of %d, the pool has %d: send less, "+
			"or start the worker with a larger pool",
			prompt, length, needed, args.BlockSize, args.NumGPUBlocks)
	}
	return ""
}
