package workload

import (
	"errors"
	"fmt"
	"math"
)

// lengthsOnly gives the rows of a trace that has no block ids at all ids of their own: no prompt shares anything with
// another.
type lengthsOnly struct {
	w          *Workload
	traceBlock int
	withIDs    int    // the first line that has block ids, 0 for none
	next       uint64 // block id
}

// maxLengthsOnly bounds the block ids of one row, which are as long as its prompt.
const maxLengthsOnly = 1 << 24

// complete gives a row block ids, if it has a length instead.
func (l *lengthsOnly) complete(line int, r *row) error {
	if r.given&fieldHashIDs != 0 {
		if l.next > 0 {
			return errors.New("hash_ids: got a list, want it in all lines or, for prompts that share nothing, in " +
				"none; earlier ones have none")
		}
		if l.withIDs == 0 {
			l.withIDs = line
		}
		return nil
	}
	if r.given&fieldInputLength == 0 || r.inputLength == 0 {
		return nil // refused later
	}
	if l.withIDs > 0 {
		return fmt.Errorf("hash_ids: missing, want the list of the prompt's block ids, as in line %d", l.withIDs)
	}
	blocks := (r.inputLength-1)/uint64(l.traceBlock) + 1
	if blocks > maxLengthsOnly || l.next+blocks > math.MaxUint32 {
		return fmt.Errorf("input_length: got %d, want at most %d without hash_ids", r.inputLength,
			maxLengthsOnly*l.traceBlock)
	}
	for range blocks {
		r.hashIDs = append(r.hashIDs, l.next)
		l.next++
	}
	r.given |= fieldHashIDs
	l.w.Notes.LengthsOnly++
	return nil
}

// capacity returns the number of tokens that the block ids of a row cover.
func (r *row) capacity(traceBlockSize int) (int, error) {
	switch {
	case r.given&fieldHashIDs == 0:
		return 0, errors.New("hash_ids: missing, want the list of the prompt's block ids, or input_length in all lines")
	case len(r.hashIDs) == 0:
		return 0, errors.New("hash_ids: got [], want at least one block id")
	case r.given&fieldInputLength != 0 && r.inputLength == 0:
		return 0, errors.New("input_length: got 0, want an integer >= 1")
	}
	return len(r.hashIDs) * traceBlockSize, nil
}

// outputTokensWanted returns the number of tokens that a row asks for.
func (r *row) outputTokensWanted() (int, error) {
	switch {
	case r.given&fieldOutputLength == 0:
		return 0, errors.New("output_length: missing, want an integer >= 1")
	case r.outputLength == 0:
		return 0, errors.New("output_length: got 0, want an integer >= 1")
	case r.given&fieldOutputTokenIDs != 0 && uint64(len(r.outputTokens)) != r.outputLength:
		return 0, fmt.Errorf("output_token_ids: got %d tokens, want as many as output_length, %d", len(r.outputTokens),
			r.outputLength)
	}
	return int(r.outputLength), nil
}
