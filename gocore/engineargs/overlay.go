package engineargs

import (
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Overlay puts the members of one object of engine arguments over those of another. A base that is no object stays as
// it is.
func Overlay(text, over string) (string, error) {
	var base, more map[string]jsontext.Value
	if err := json.Unmarshal([]byte(over), &more); err != nil {
		return "", err
	}
	if len(more) == 0 || json.Unmarshal([]byte(text), &base) != nil {
		return text, nil
	}
	maps.Copy(base, more)
	merged, err := json.Marshal(base, json.Deterministic(true))
	return string(merged), err
}
