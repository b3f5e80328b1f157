package answers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Recording has answers by the beginning of what a client says.
type Recording struct {
	prompts []string // sorted
	answers map[string]*series
	longest int // answer, in bytes
}

// series is the answers to one prompt, which are given one after the other, again and again.
type series struct {
	mu   sync.Mutex
	list []recordedAnswer
	next int
}

// take returns the next answer. One that calls tools is no answer to the result of a call, unless there are others: an
// agent would call for ever.
func (s *series) take(afterResult bool) (answer recordedAnswer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer = s.list[s.next]
	if afterResult && len(s.list) == 1 && len(answer.Calls) > 0 {
		return recordedAnswer{}, false
	}
	s.next = (s.next + 1) % len(s.list)
	return answer, true
}

// recordedAnswer is a text, or calls of tools.
type recordedAnswer struct {
	Text  string
	Calls []recordedCall
}

// maxLine is the longest line of a recording, in bytes.
const maxLine = 64 << 20

// ReadRecording reads a JSON object from each line, with the members "prompt" and "response" or "tool_calls". Other
// members are ignored. An answer is given to everything that begins with its prompt; the longest prompt wins. Answers
// to the same prompt are given in the order of the lines.
func ReadRecording(from io.Reader) (*Recording, error) {
	r := &Recording{answers: map[string]*series{}}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		prompt, answer, err := readAnswer(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		r.longest = max(r.longest, answer.size())
		if known := r.answers[prompt]; known != nil {
			known.list = append(known.list, answer)
			continue
		}
		r.answers[prompt] = &series{list: []recordedAnswer{answer}}
		r.prompts = append(r.prompts, prompt)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(r.prompts) == 0 {
		return nil, fmt.Errorf("no line has an answer")
	}
	sort.Strings(r.prompts)
	return r, nil
}

// readAnswer reads a line of a recording.
func readAnswer(line []byte) (prompt string, answer recordedAnswer, err error) {
	var row struct {
		Prompt   *string `json:"prompt"`
		Response string  `json:"response"`

		Calls []recordedCall `json:"tool_calls"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return "", answer, err
	}
	switch {
	case row.Prompt == nil:
		return "", answer, errors.New("prompt: missing, want the beginning of what the client says")
	case len(row.Calls) > 0 && row.Response != "":
		return "", answer, errors.New("response, tool_calls: got both, want one of them")
	case len(row.Calls) == 0 && row.Response == "":
		return "", answer, errors.New("response: missing, want the text of the answer")
	}
	for i, call := range row.Calls {
		if call.Name == "" || !jsontext.Value(call.Arguments).IsValid() ||
			jsontext.Value(call.Arguments).Kind() != '{' {
			return "", answer, fmt.Errorf("tool_calls: call %d: want name, and arguments that are an object", i)
		}
	}
	return *row.Prompt, recordedAnswer{Text: row.Response, Calls: row.Calls}, nil
}

// size bounds the bytes of an answer.
func (a recordedAnswer) size() int {
	size := len(a.Text)
	for _, call := range a.Calls {
		size += len(call.Name) + len(call.Arguments) + maxWording
	}
	return size
}

// find returns the answers of the longest prompt with which a text begins, nil for none. Of the prompts that are not
// greater than the text, those that it begins with share more with it the greater they are; the search goes down from
// the greatest to what the two have in common.
func (r *Recording) find(said string) *series {
	for text := said; ; {
		i := sort.SearchStrings(r.prompts, text)
		if i < len(r.prompts) && r.prompts[i] == text {
			return r.answers[text]
		}
		if i == 0 {
			return nil
		}
		candidate := r.prompts[i-1]
		if strings.HasPrefix(said, candidate) {
			return r.answers[candidate]
		}
		text = candidate[:common(candidate, text)]
	}
}

// common returns the length of the common beginning of two texts.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
