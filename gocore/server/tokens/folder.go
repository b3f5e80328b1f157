package tokens

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"

	"dynosim/gocore/guard"
	"dynosim/gocore/server/detokenize"
)

// Folder is the tokenizer and the chat template in the folder of a model, in a pool of Python processes with the
// libraries that real servers use, so that texts have the same tokens. Only prompts and given answers wait for a
// process; what is made up needs none, and tokens become text here, by package detokenize.
//
// Each process takes what has come while it was busy as one batch. A process that ends is replaced; what it was asked
// fails.
type Folder struct {
	python, folder string
	log            *slog.Logger
	vocabulary     *detokenize.Vocabulary
	words          []uint32
	texts          []string

	jobs chan *job
	done sync.WaitGroup
}

// job is one question, and where its answer goes.
type job struct {
	question question
	answer   chan<- result // has room for it
}

type result struct {
	reply reply
	err   error
}

// Bounds on what waits for helpers, and on what one is asked at once.
const (
	maxJobs  = 4096
	maxBatch = 64
)

// MissingError says which package the Python lacks that is to read a tokenizer, and how it is installed.
type MissingError string

func (e MissingError) Error() string { return string(e) }

// OpenFolder starts helpers for a folder, with this Python. Only with draws may Draw be called: looking for tokens that
// make up texts takes long in a large vocabulary.
func OpenFolder(python, folder string, helpers int, draws bool, log *slog.Logger) (*Folder, error) {
	vocabulary, err := detokenize.Open(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	first, described, err := startHelper(python, folder, draws)
	if err != nil {
		return nil, err
	}
	f := &Folder{
		python: python, folder: folder, log: log, vocabulary: vocabulary, words: described.Words,
		texts: described.Texts, jobs: make(chan *job, maxJobs),
	}
	for i := range helpers {
		var h *helper
		if i == 0 {
			h = first
		}
		f.done.Go(guard.Func(func() { f.serve(h) }))
	}
	return f, nil
}

// serve answers questions with one helper, which it starts if there is none.
func (f *Folder) serve(h *helper) {
	if h == nil {
		h, _, _ = startHelper(f.python, f.folder, false) // after an error it is tried again when it is needed
	}
	defer func() {
		if h != nil {
			h.close()
		}
	}()
	for first := range f.jobs {
		batch := f.batch(first)
		if h == nil {
			var err error
			if h, _, err = startHelper(f.python, f.folder, false); err != nil {
				fail(batch, err)
				continue
			}
		}
		questions := make([]question, len(batch))
		for i, j := range batch {
			questions[i] = j.question
		}
		answers, err := h.ask(questions)
		if err != nil {
			f.log.Error("a tokenizer has ended", "folder", f.folder, "cause", err)
			h.close()
			h = nil
			fail(batch, errEnded)
			continue
		}
		for i, j := range batch {
			j.answer <- result{reply: answers[i]}
		}
	}
}

var errEnded = errors.New("the tokenizer has ended; try again")

func fail(batch []*job, err error) {
	for _, j := range batch {
		j.answer <- result{err: err}
	}
}

// batch takes what waits.
func (f *Folder) batch(first *job) []*job {
	batch := []*job{first}
	for len(batch) < maxBatch {
		select {
		case j, open := <-f.jobs:
			if !open {
				return batch
			}
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// ask waits for the answer to a question.
func (f *Folder) ask(ctx context.Context, q question) (reply, error) {
	answer := make(chan result, 1)
	select {
	case f.jobs <- &job{q, answer}:
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	select {
	case r := <-answer:
		if r.err == nil && r.reply.Error != "" {
			return reply{}, &InputError{r.reply.Error}
		}
		return r.reply, r.err
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// Prompt implements [Tokenizer].
func (f *Folder) Prompt(ctx context.Context, text string, special bool) ([]uint32, error) {
	r, err := f.ask(ctx, question{Kind: "prompt", Text: valid(text), Special: special})
	return r.Tokens, err
}

// Chat implements [Tokenizer].
func (f *Folder) Chat(ctx context.Context, c Chat) ([]uint32, error) {
	q := question{Kind: "chat", Chat: &c}
	for _, img := range c.Images {
		q.Marks = append(q.Marks, img.Mark)
	}
	r, err := f.ask(ctx, q)
	if err != nil || len(c.Images) == 0 {
		return r.Tokens, err
	}
	pieces := make([][]uint32, len(r.Pieces))
	for i := range r.Pieces {
		pieces[i] = r.Pieces[i]
	}
	return fill(pieces, c.Images, f.vocabulary.Size()), nil
}

// Text implements [Tokenizer].
func (f *Folder) Text(tokens []uint32) (string, error) {
	return f.vocabulary.Text(tokens, true), nil
}

// Decoder implements [Tokenizer].
func (f *Folder) Decoder(prompt []uint32, special bool) Decoder {
	return f.vocabulary.After(prompt, special)
}

// Answer implements [Tokenizer].
func (f *Folder) Answer(ctx context.Context, text string) (Spoken, error) {
	r, err := f.ask(ctx, question{Kind: "answer", Text: valid(text)})
	s := Spoken{Tokens: r.Tokens, Text: r.Text, Ends: make([]int32, len(r.Ends))}
	for i, end := range r.Ends {
		s.Ends[i] = int32(end)
	}
	return s, err
}

// Draw implements [Tokenizer].
func (f *Folder) Draw(n int, seed uint64) Spoken {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := Spoken{Tokens: make([]uint32, n), Ends: make([]int32, n)}
	var text strings.Builder
	for i := range n {
		word := rng.IntN(len(f.words))
		s.Tokens[i] = f.words[word]
		text.WriteString(f.texts[word])
		s.Ends[i] = int32(text.Len())
	}
	s.Text = text.String()
	return s
}

// Size implements [Tokenizer].
func (f *Folder) Size() int { return f.vocabulary.Size() }

// Name implements [Tokenizer].
func (f *Folder) Name(token uint32) string { return f.vocabulary.Name(token) }

// Close implements [Tokenizer]. Nothing may be asked afterwards.
func (f *Folder) Close() {
	close(f.jobs)
	f.done.Wait()
}
