package openai

import (
	"os"
	"testing"

	"dynosim/gocore/fieldtable"
)

//go:generate go test . -run ^TestGenerated -rewrite

// TestGeneratedPage keeps what the page shares with those that Python writes: a server has no other way to their styles
// and scripts.
func TestGeneratedPage(t *testing.T) {
	for path, parts := range map[string][]string{"page/shared.css": {"page.css"},
		"page/shared.js": {"elements.js", "charts.js"}} {
		text := "/* Code generated from python/dynamo/_page by go generate ./gocore/server/openai. DO NOT EDIT. */\n"
		for _, name := range parts {
			part, err := os.ReadFile("../../../python/dynamo/_page/" + name)
			if err != nil {
				t.Fatal(err)
			}
			text += string(part)
		}
		fieldtable.Keep(t, path, text)
	}
}
