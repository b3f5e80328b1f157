package openai

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
)

// picture returns the data URL of an image.
func picture(t *testing.T, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes())
}

// TestImages: an image counts a fixed number of tokens for each tile, in the APIs of three clients; equal images are
// found in the cache, others not.
func TestImages(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Models[0].Images = Images{Tokens: 100, Tile: 512} })
	wide, small := picture(t, 1025, 512), picture(t, 512, 513) // three tiles and two
	chat := func(text string) string {
		return fmt.Sprintf(`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"See"},%s]}]}`,
			text)
	}
	part := func(url, detail string) string {
		return fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q,"detail":%q}}`, url, detail)
	}
	prompt := func(path, body, member string) int {
		t.Helper()
		got := post(t, url+path, body)
		if got.status != 200 {
			t.Fatalf("%s: got %d %s", path, got.status, got.text)
		}
		return int(at(got.json(t), "usage", member).(float64))
	}
	alone := prompt("/v1/chat/completions", chat(`{"type":"text","text":""}`), "prompt_tokens")
	for body, tokens := range map[string]int{
		chat(part(wide, "auto")):                             300,
		chat(part(wide, "low")):                              100,
		chat(part("http://example.com/x.png", "auto")):       100,
		chat(part(wide, "auto") + "," + part(small, "high")): 500,
	} {
		if got := prompt("/v1/chat/completions", body, "prompt_tokens"); got != alone+tokens {
			t.Errorf("got %d tokens, want %d", got, alone+tokens)
		}
	}
	cached := func(image string) float64 {
		got := post(t, url+"/v1/chat/completions", chat(part(image, "auto"))).json(t)
		return at(got, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	}
	if got := cached(wide); got < 300 {
		t.Errorf("an image that was sent before has %v cached tokens", got)
	}
	if got := cached(picture(t, 1026, 512)); got > 100 {
		t.Errorf("another image has %v cached tokens", got)
	}
	responses := fmt.Sprintf(`{"max_output_tokens":1,"input":[{"role":"user","content":[{"type":"input_text",`+
		`"text":"See"},{"type":"input_image","image_url":%q}]}]}`, wide)
	if got := prompt("/v1/responses", responses, "input_tokens"); got != alone+300 {
		t.Errorf("/v1/responses: got %d tokens, want %d", got, alone+300)
	}
	data := strings.TrimPrefix(wide, "data:image/png;base64,")
	messages := fmt.Sprintf(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text",`+
		`"text":"See"},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}}]}]}`, data)
	if got := post(t, url+"/v1/messages/count_tokens", messages); at(got.json(t),
		"input_tokens") != float64(alone+300) {
		t.Errorf("/v1/messages: got %s, want %d", got.text, alone+300)
	}
	for body, want := range map[string]string{
		chat(part("data:image/png,xx", "auto")):          "want data:image/png;base64",
		chat(part("data:image/png;base64,?", "auto")):    "is no base64",
		chat(part("data:image/png;base64,AAAA", "auto")): "want PNG, JPEG or GIF",
		chat(`{"type":"image_url"}`):                     "got an image without a URL",
		chat(`{"type":"input_audio","input_audio":{}}`):  "input_audio",
		chat(`{"type":"image_url","image_url":7}`):       "want parts that are objects",
	} {
		if got := post(t, url+"/v1/chat/completions", body); got.status != 400 || !strings.Contains(got.text, want) {
			t.Errorf("got %d %s, want %s", got.status, got.text, want)
		}
	}
	mark, err := markImage("", "http://x/y.png", "")
	if err != nil || withoutImages("a"+mark+"b"+mark) != "ab" {
		t.Errorf("got %q, %v", withoutImages("a"+mark+"b"+mark), err)
	}
}
