package live

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// recordedRow is a line of a file with answers to repeat. Other members are skipped.
type recordedRow struct {
	RequestID    string   `json:"request_id"`
	SessionID    string   `json:"session_id"`
	OutputLength *int     `json:"output_length"`
	OutputTokens *int     `json:"output_tokens"` // another name of output_length
	TokenIDs     []uint32 `json:"output_token_ids"`
}

// ReadRecorded reads answers to repeat from JSON lines. A row with output_token_ids is known by its request_id, else as
// SESSION:TURN, else as line:NUMBER; turns and lines count from 0, whether or not they have an answer.
func ReadRecorded(r io.Reader) (map[string][]uint32, error) {
	answers := map[string][]uint32{}
	turns := map[string]int{}
	lines := bufio.NewReader(r)
	for i := 0; ; i++ {
		text, err := lines.ReadString('\n')
		if strings.TrimSpace(text) != "" {
			if err := addRecorded(answers, turns, i, text); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return answers, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func addRecorded(answers map[string][]uint32, turns map[string]int, line int, text string) error {
	var row recordedRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return err
	}
	key := row.key(turns, line)
	if row.TokenIDs == nil {
		return nil
	}
	length := row.OutputLength
	if length == nil {
		length = row.OutputTokens
	}
	switch {
	case length == nil:
		return errors.New("output_length: missing beside output_token_ids")
	case *length != len(row.TokenIDs):
		return fmt.Errorf("output_length: got %d, output_token_ids has %d", *length, len(row.TokenIDs))
	case len(row.TokenIDs) == 0:
		return errors.New("output_token_ids: got none, want at least one")
	}
	if _, known := answers[key]; known {
		return fmt.Errorf("a second answer for %q", key)
	}
	answers[key] = row.TokenIDs
	return nil
}

func (row *recordedRow) key(turns map[string]int, line int) string {
	turn := turns[row.SessionID]
	turns[row.SessionID]++
	switch id := strings.TrimSpace(row.RequestID); {
	case id != "":
		return id
	case row.SessionID != "":
		return fmt.Sprintf("%s:%d", row.SessionID, turn)
	default:
		return fmt.Sprintf("line:%d", line)
	}
}
