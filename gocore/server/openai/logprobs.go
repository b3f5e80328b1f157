package openai

import (
	"math"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/strictjson"
)

// details are what a client wants to know of the tokens of answers, beside their text.
type details struct {
	logprobs bool // made up: a token of an answer is the most likely one
	top      int  // tokens for each place, the one of the answer among them
	ids      bool
}

// maxTop is the largest number of tokens for each place.
const maxTop = 20

// maxLogprobs bounds the numbers in all answers to a request.
const maxLogprobs = 1 << 20

// tell sets what the client gets to know of tokens.
func (g *generation) tell(d details) error {
	g.details = d
	if !d.logprobs {
		return nil
	}
	if g.target.model.elsewhere() {
		g.release(0)
		return badRequest("logprobs", "workers elsewhere give no probabilities; leave it out")
	}
	places := 0
	for _, c := range g.choices {
		places += c.prompt + len(c.answer.Tokens)
	}
	if places*(d.top+1) > maxLogprobs {
		g.release(0)
		return badRequest("logprobs", "want at most %d in all, and %d for each of %d tokens are more", maxLogprobs,
			d.top+1, places)
	}
	return nil
}

// likely is a token and how likely it is.
type likely struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// logged is a token with others that are less likely.
type logged struct {
	likely
	Top []likely `json:"top_logprobs"`
}

// logprob makes up how likely a token at a place is, with others: equal tokens at equal places get equal numbers, which
// sum to less than one.
func (d *details) logprob(m *Model, token uint32, place int) logged {
	rng := rand.New(rand.NewPCG(uint64(token), uint64(place)))
	p := 0.5 + 0.45*rng.Float64()
	l := logged{likely: m.likely(token, p), Top: []likely{}}
	texts := map[string]bool{}
	for rest := 1 - p; len(l.Top) < d.top; {
		if len(l.Top) == 0 {
			l.Top = append(l.Top, l.likely)
			texts[l.Token] = true
			continue
		}
		rest /= 2
		other := m.likely(uint32(rng.IntN(m.Tokenizer.Size())), rest)
		for n := 0; texts[other.Token] && n < 100; n++ {
			other = m.likely(uint32(rng.IntN(m.Tokenizer.Size())), rest)
		}
		texts[other.Token] = true
		l.Top = append(l.Top, other)
	}
	return l
}

func (m *Model) likely(token uint32, p float64) likely {
	text, err := m.Tokenizer.Text([]uint32{token})
	if err != nil {
		text = ""
	}
	l := likely{Token: text, Logprob: math.Log(p), Bytes: make([]int, len(text))}
	for i := range len(text) {
		l.Bytes[i] = int(text[i])
	}
	return l
}

// appendDetails appends the members of a choice about the tokens that the client has not heard of, up to number to.
func (c *choice) appendDetails(b []byte, g *generation, to int) []byte {
	from := c.told
	c.told = max(to, from)
	if g.details == (details{}) || from >= to {
		return append(b, `"logprobs":null,`...)
	}
	b = append(b, `"logprobs":`...)
	if g.details.logprobs {
		b = append(b, g.shape.logprobs(g, c, from, to)...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, ',')
	if g.details.ids && !c.silent {
		b = strictjson.AppendInts(append(b, `"token_ids":`...), c.answer.Tokens[from:to])
		b = append(b, ',')
	}
	return b
}

// allLogprobs returns JSON for how likely the tokens of a whole answer were.
func (c *choice) allLogprobs(g *generation) jsontext.Value {
	if !g.details.logprobs {
		return jsontext.Value("null")
	}
	return g.shape.logprobs(g, c, 0, len(c.answer.Tokens))
}

// ids returns the tokens of a whole answer, if the client wants them.
func (c *choice) ids(g *generation) []uint32 {
	if !g.details.ids || c.silent {
		return nil
	}
	return c.answer.Tokens
}

// prompts returns the tokens of the prompt of a choice, if the client wants them.
func (g *generation) prompts(c *choice) []uint32 {
	if !g.details.ids {
		return nil
	}
	return g.promptTokens[c.index*len(g.promptTokens)/len(g.choices)]
}

// logprobs implements [shape].
func (*chatShape) logprobs(g *generation, c *choice, from, to int) []byte {
	list := []logged{}
	for i := from; i < to; i++ {
		list = append(list, g.details.logprob(g.target.model, c.answer.Tokens[i], c.prompt+i))
	}
	text, _ := json.Marshal(map[string][]logged{"content": list})
	return text
}

// logprobs implements [shape]. The prompt comes first if it is a part of the text.
func (*completionShape) logprobs(g *generation, c *choice, from, to int) []byte {
	document := struct {
		Offsets []int                `json:"text_offset"`
		Tokens  []string             `json:"tokens"`
		Own     []*float64           `json:"token_logprobs"`
		Top     []map[string]float64 `json:"top_logprobs"`
	}{[]int{}, []string{}, []*float64{}, []map[string]float64{}}
	add := func(token uint32, place int) {
		l := g.details.logprob(g.target.model, token, place)
		top := map[string]float64{l.Token: l.Logprob} // as vLLM: the token itself is always there
		for _, other := range l.Top {
			if _, known := top[other.Token]; !known {
				top[other.Token] = other.Logprob
			}
		}
		document.Offsets = append(document.Offsets, c.offset)
		document.Tokens = append(document.Tokens, l.Token)
		document.Own, document.Top = append(document.Own, &l.Logprob), append(document.Top, top)
		c.offset += utf8.RuneCountInString(l.Token)
	}
	if from == 0 {
		for i, token := range c.echoed {
			add(token, i)
		}
		if len(c.echoed) > 0 { // nothing is in front of the first one
			document.Own[0], document.Top[0] = nil, nil
		}
	}
	for i := from; i < to && !c.silent; i++ {
		add(c.answer.Tokens[i], c.prompt+i)
	}
	text, _ := json.Marshal(document)
	return text
}

// logprobs implements [shape].
func (*responseShape) logprobs(*generation, *choice, int, int) []byte { return []byte("null") }

// refusal is a parameter that would change answers, with what is said of it.
type refusal struct {
	name  string
	given bool
	why   string
}

// refused returns the error for the first parameter that is given.
func refused(list []refusal) error {
	for _, r := range list {
		if r.given {
			return badRequest(r.name, "%s", r.why)
		}
	}
	return nil
}

// truncate keeps the last tokens of a prompt, as many as the request wants of it.
func (s *sampling) truncate(m *Model, prompt []uint32) ([]uint32, error) {
	if s.Truncate == nil {
		return prompt, nil
	}
	n := *s.Truncate
	if n == -1 {
		n = m.MaxLength
	}
	if n < 1 || n > m.MaxLength {
		return nil, badRequest("truncate_prompt_tokens",
			"got %d, want -1 or an integer from 1 to %d, the longest sequence of the model", *s.Truncate, m.MaxLength)
	}
	return prompt[max(0, len(prompt)-n):], nil
}

// onlyText refuses answers that are no text.
func onlyText(modalities []string) error {
	for _, m := range modalities {
		if m != "text" {
			return badRequest("modalities", "got %q, want text: answers are nothing else",
				strings.ToValidUTF8(shortened([]byte(m)), "?"))
		}
	}
	return nil
}
