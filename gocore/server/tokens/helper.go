package tokens

import (
	"bufio"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/go-json-experiment/json"

	"dynosim/gocore/guard"
)

//go:embed helper.py
var helperSource string

// bootstrap runs the program in the first line of the input: as an argument it would fill lists of processes.
const bootstrap = "import json, sys; exec(compile(json.loads(sys.stdin.readline()), 'helper.py', 'exec'))"

// packed is tokens as a helper writes them.
type packed []uint32

// UnmarshalJSON implements [json.Unmarshaler].
func (p *packed) UnmarshalJSON(text []byte) error {
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	*p = make(packed, len(raw)/4)
	for i := range *p {
		(*p)[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return nil
}

// helper is a Python process that tokenizes. One goroutine uses it.
type helper struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// description is what a helper says of its model.
type description struct {
	Error string `json:"error"`
	// Missing tells that the error is about a package.
	Missing bool     `json:"missing"`
	Words   packed   `json:"words"`
	Texts   []string `json:"texts"`
}

// startHelper starts a helper for a folder. With vocabulary it looks for tokens of which texts can be made up, too.
func startHelper(python, folder string, vocabulary bool) (*helper, *description, error) {
	arguments := []string{"-c", bootstrap, folder}
	if vocabulary {
		arguments = append(arguments, "vocabulary")
	}
	command := exec.Command(python, arguments...)
	command.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "PYTHONIOENCODING=utf-8", "PYTHONUTF8=1")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("tokenizer_python: %w", err)
	}
	h := &helper{command: command, in: in, out: bufio.NewReaderSize(out, 64<<10)}
	var d description
	source, _ := json.Marshal(helperSource)
	if _, err = in.Write(append(source, '\n')); err == nil {
		err = h.read(&d)
	}
	if err != nil {
		h.close()
		return nil, nil, fmt.Errorf("the tokenizer did not start: %w", err)
	}
	if d.Error != "" {
		h.close()
		if d.Missing {
			return nil, nil, MissingError(d.Error)
		}
		return nil, nil, fmt.Errorf("the tokenizer did not start: %s", d.Error)
	}
	return h, &d, nil
}

// read reads one line.
func (h *helper) read(into any) error {
	line, err := h.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

// ask answers a batch of questions.
func (h *helper) ask(questions []question) (answers []reply, err error) {
	text, err := json.Marshal(questions)
	if err != nil {
		return nil, err
	}
	if _, err := h.in.Write(append(text, '\n')); err != nil {
		return nil, err
	}
	if err := h.read(&answers); err != nil {
		return nil, err
	}
	if len(answers) != len(questions) {
		return nil, fmt.Errorf("got %d answers to %d questions", len(answers), len(questions))
	}
	return answers, nil
}

// patience is how long a helper may take to end by itself.
const patience = 5 * time.Second

// close ends the helper: its input ends, and it is killed if it does not notice.
func (h *helper) close() {
	_ = h.in.Close()
	kill := time.AfterFunc(patience, guard.Func(func() { _ = h.command.Process.Kill() }))
	defer kill.Stop()
	_, _ = io.Copy(io.Discard, h.out)
	_ = h.command.Wait()
}

// question is what a helper is asked.
type question struct {
	Kind    string `json:"kind"` // "prompt", "chat" or "answer"
	Text    string `json:"text"`
	Special bool   `json:"special"`
	Chat    *Chat  `json:"chat,omitempty"`
	// Marks are those of images, between which the tokens of a chat are wanted.
	Marks []string `json:"marks,omitempty"`
}

// reply is what a helper answers.
type reply struct {
	Error  string `json:"error"`
	Tokens packed `json:"tokens"`
	Text   string `json:"text"`
	Ends   packed `json:"ends"`
	// Pieces are the tokens between marks.
	Pieces []packed `json:"pieces"`
}
