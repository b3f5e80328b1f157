package detokenize

import "strings"

// complete is what stages have in common that need a token as a whole.
type complete struct {
	link
	token []byte
}

func (c *complete) begin() { c.token = c.token[:0] }

func (c *complete) part(text string) { c.token = append(c.token, text...) }

func (c *complete) close() { c.next.close() }

// words puts blanks between tokens.
type words struct {
	link
	more bool
}

func (w *words) begin() {
	w.next.begin()
	if w.more {
		w.next.part(" ")
	}
	w.more = true
}

func (w *words) part(text string) { w.next.part(text) }

func (w *words) end() { w.next.end() }

func (w *words) close() { w.next.close() }

// wordPiece puts blanks in front of tokens that do not continue a word.
type wordPiece struct {
	complete
	prefix  string
	cleanup bool
	more    bool
}

func (w *wordPiece) end() {
	text := string(w.token)
	if w.more {
		if rest, continues := strings.CutPrefix(text, w.prefix); continues {
			text = rest
		} else {
			text = " " + text
		}
	}
	w.more = true
	if w.cleanup {
		text = clean(text)
	}
	whole(w.next, text)
}

// artifacts are what word tokenizers leave of punctuation and of English contractions, in the order in which they are
// taken away.
var artifacts = []string{
	" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's",
	"'s", " 've", "'ve", " 're", "'re",
}

func clean(text string) string {
	for i := 0; i < len(artifacts); i += 2 {
		text = strings.ReplaceAll(text, artifacts[i], artifacts[i+1])
	}
	return text
}

// endOfWord makes a blank of the mark at the end of a word, but not in the last token.
type endOfWord struct {
	complete
	suffix string
	kept   string // the latest token
	any    bool
}

func (e *endOfWord) end() {
	if e.any {
		whole(e.next, strings.ReplaceAll(e.kept, e.suffix, " "))
	}
	e.kept, e.any = string(e.token), true
}

func (e *endOfWord) close() {
	if e.any {
		whole(e.next, strings.ReplaceAll(e.kept, e.suffix, ""))
	}
	e.next.close()
}

// ctc takes repetitions and padding away.
type ctc struct {
	complete
	pad, delimiter string
	cleanup        bool
	last           string
	any            bool
}

func (c *ctc) end() {
	text := string(c.token)
	if c.any && text == c.last {
		return
	}
	c.last, c.any = text, true
	text = strings.ReplaceAll(text, c.pad, "")
	if c.cleanup {
		text = strings.ReplaceAll(clean(text), c.delimiter, " ")
	}
	if text != "" {
		whole(c.next, text)
	}
}
