package speculation

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultRates are the rates if the user gives none.
var DefaultRates = [MaxDrafts]float64{0.85, 0.3, 0, 0, 0}

// RateError is an entry of the list of rates, counted from 0, that is not a probability.
type RateError struct {
	Entry int
	Got   string
}

func (e *RateError) Error() string {
	return fmt.Sprintf("entry %d: got %q, want a number from 0 to 1", e.Entry, e.Got)
}

// ParseRates reads the rates of drafts draft tokens, 1 to MaxDrafts, from a list that is separated by commas. An empty
// list stands for the default, 0.85,0.3,0,0,0. Surplus entries are checked and left out, missing ones are 0.
func ParseRates(list string, drafts int) ([]float64, error) {
	if strings.TrimSpace(list) == "" {
		return append([]float64(nil), DefaultRates[:drafts]...), nil
	}
	rates := make([]float64, drafts)
	for i, entry := range strings.Split(list, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(entry), 64)
		if err != nil || !(rate >= 0 && rate <= 1) {
			return nil, &RateError{Entry: i, Got: strings.TrimSpace(entry)}
		}
		if i < drafts {
			rates[i] = rate
		}
	}
	return rates, nil
}
