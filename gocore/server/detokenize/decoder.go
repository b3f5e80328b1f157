package detokenize

// Decoder makes text of tokens that arrive. One goroutine uses it.
type Decoder struct {
	vocabulary *Vocabulary
	special    bool
	first      stage
	text       sink
}

// Decoder returns a decoder of one text. special says whether special tokens are part of it.
func (v *Vocabulary) Decoder(special bool) *Decoder {
	d := &Decoder{vocabulary: v, special: special}
	d.first = &d.text
	for i := len(v.stages) - 1; i >= 0; i-- {
		s := v.stages[i]()
		s.feed(d.first)
		d.first = s
	}
	return d
}

// Push takes the next tokens and returns the text that is certain now and was not before. Tokens that the vocabulary does not have say
// nothing.
func (d *Decoder) Push(tokens []uint32) string {
	all := d.vocabulary.tokens
	for _, id := range tokens {
		if int64(id) >= int64(len(all)) {
			continue
		}
		if t := &all[id]; t.known && (d.special || !t.special) {
			whole(d.first, t.name)
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
