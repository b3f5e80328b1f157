package policies

import (
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

var powerOfTwoFields = []strictjson.Field{
	choice("load", []string{"requests", "tokens"},
		"What is compared: `\"requests\"` in flight, or the prompt `\"tokens\"` of these."),
}

// powerOfTwo draws two different workers and takes the one with less load; ties are drawn. SGLang's gateway compares
// tokens that workers report every 30 s, vLLM's router and Shepherd the requests that they have in flight themselves.
type powerOfTwo struct {
	memoryless
	byTokens bool
}

func newPowerOfTwo(o router.Options) rule {
	return powerOfTwo{byTokens: o.Settings.Text("load") == "tokens"}
}

func (p powerOfTwo) choose(v *view, _ *router.Request, draw chance) int {
	n := len(v.workers)
	if n == 1 {
		return v.workers[0]
	}
	i, j := draw.IntN(n), draw.IntN(n-1)
	if j >= i {
		j++
	}
	a, b := v.workers[i], v.workers[j]
	order := v.requests[a] - v.requests[b]
	if p.byTokens {
		order = int(v.tokens[a] - v.tokens[b])
	}
	if order > 0 || order == 0 && draw.IntN(2) == 1 {
		return b
	}
	return a
}
