package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]Tokens{
		`[]`: {}, ` [ ] `: {}, `null`: nil, `[0]`: {0}, "[ 1 ,\n2,\t4294967295 ]": {1, 2, 4294967295},
	} {
		var got Tokens
		if err := json.Unmarshal([]byte(text), &got); err != nil || !slices.Equal(got, want) ||
			(got == nil) != (want == nil) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`{}`: "got {}, want a list", `"x"`: `got "x", want a list`,
		`[1,-1]`:       "entry 1: got -1, want an integer from 0 to 4294967295",
		`[4294967296]`: "entry 0", `[1.5]`: "entry 0", `[1e3]`: "entry 0", `[[1,2]]`: "entry 0: got [1",
		`[1,"2"]`: "entry 1", `[null]`: "entry 0",
	} {
		var got Tokens
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %s", text, got, err, want)
		}
	}
}

// FuzzTokens: tokens are read as encoding/json reads a list of integers.
func FuzzTokens(f *testing.F) {
	f.Add("[1, 2,4294967295]")
	f.Fuzz(func(t *testing.T, text string) {
		var got Tokens
		var want []uint32
		gotErr, wantErr := json.Unmarshal([]byte(text), &got), json.Unmarshal([]byte(text), &want)
		if gotErr == nil && (wantErr != nil || !slices.Equal(got, want)) {
			t.Errorf("got %v, want %v, %v", got, want, wantErr)
		}
		if gotErr != nil && wantErr == nil && !strings.Contains(text, "null") { // an entry null is 0 there
			t.Errorf("got %v, want %v", gotErr, want)
		}
	})
}

func BenchmarkDecodeRequest(b *testing.B) {
	body, _ := EncodeRequest(JSON, Request{TokenIDs: make([]uint32, 8000)})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRequest(JSON, body); err != nil {
			b.Fatal(err)
		}
	}
}
