package workload

import (
	"errors"
	"fmt"
)

// capacity is the number of tokens that the block ids of a row cover.
func (r *row) capacity(traceBlockSize int) (int, error) {
	switch {
	case r.given&fieldHashIDs == 0:
		return 0, errors.New("hash_ids: missing, want the list of the prompt's block ids")
	case len(r.hashIDs) == 0:
		return 0, errors.New("hash_ids: got [], want at least one block id")
	case r.given&fieldInputLength != 0 && r.inputLength == 0:
		return 0, errors.New("input_length: got 0, want an integer >= 1")
	}
	return len(r.hashIDs) * traceBlockSize, nil
}

// outputTokensWanted is the number of tokens that a row asks for.
func (r *row) outputTokensWanted() (int, error) {
	switch {
	case r.given&fieldOutputLength == 0:
		return 0, errors.New("output_length: missing, want an integer >= 1")
	case r.outputLength == 0:
		return 0, errors.New("output_length: got 0, want an integer >= 1")
	case r.given&fieldOutputTokenIDs != 0 && uint64(len(r.outputTokens)) != r.outputLength:
		return 0, fmt.Errorf("output_token_ids: got %d tokens, want as many as output_length, %d", len(r.outputTokens), r.outputLength)
	}
	return int(r.outputLength), nil
}
