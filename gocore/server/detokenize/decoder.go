package detokenize

// Decoder makes text of tokens that arrive. One goroutine uses it.
type Decoder struct {
	vocabulary *Vocabulary
	special    bool
	first      stage
	text       sink
}

// Decoder returns a decoder of one text. special says whether special tokens are part of it.
func (v *Vocabulary) Decoder(special bool) *Decoder { return v.After(nil, special) }

// After returns a decoder of a text that goes on after a prompt: its first token keeps the blank that decoders leave
// out at the beginning of a text.
func (v *Vocabulary) After(prompt []uint32, special bool) *Decoder {
	d := v.decoder(special)
	for i := len(prompt) - 1; i >= max(0, len(prompt)-maxBack); i-- {
		if probe := v.decoder(special); probe.says(prompt[i]) && probe.settles(prompt[i:i+1]) {
			d.Push(prompt[i : i+1])
			break
		}
	}
	return d
}

// maxBack is how many tokens of a prompt are looked at to find one that says something by itself: not one byte of a
// character.
const maxBack = 64

// settles reports whether no text of some tokens waits for others.
func (d *Decoder) settles(tokens []uint32) bool {
	d.Push(tokens)
	return d.Close() == ""
}

// says reports whether a token is a part of texts.
func (d *Decoder) says(token uint32) bool {
	all := d.vocabulary.tokens
	return int64(token) < int64(len(all)) && all[token].known && (d.special || !all[token].special)
}

func (v *Vocabulary) decoder(special bool) *Decoder {
	d := &Decoder{vocabulary: v, special: special}
	d.first = &d.text
	for i := len(v.stages) - 1; i >= 0; i-- {
		s := v.stages[i]()
		s.feed(d.first)
		d.first = s
	}
	return d
}

// Push takes the next tokens and returns the text that is certain now and was not before. Tokens that the vocabulary
// does not have say nothing.
func (d *Decoder) Push(tokens []uint32) string {
	for _, id := range tokens {
		if d.says(id) {
			whole(d.first, d.vocabulary.tokens[id].name)
		}
	}
	return d.text.take()
}

// Close returns the text that was not certain before all tokens had come.
func (d *Decoder) Close() string {
	d.first.close()
	return d.text.take()
}

// sink is the end of all stages: it collects text.
type sink struct{ buffer []byte }

func (*sink) feed(stage) {}

func (*sink) begin() {}

func (s *sink) part(text string) { s.buffer = append(s.buffer, text...) }

func (*sink) end() {}

func (*sink) close() {}

func (s *sink) take() string {
	text := string(s.buffer)
	s.buffer = s.buffer[:0]
	return text
}
