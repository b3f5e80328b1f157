package live

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/protocol/wire"
)

func TestDraw(t *testing.T) {
	o := outputs{standardLength: 16, reasoning: &engineargs.Reasoning{StartToken: 3000, EndToken: 3001, Ratio: 0.5}}
	got := o.decide(&wire.Request{}, rand.New(rand.NewPCG(1, 2)))
	if len(got.tokens) != 16 || got.tokens[0] != 3000 || got.tokens[7] != 3001 || got.finish != wire.FinishLength {
		t.Errorf("got %+v", got)
	}
	for i, token := range got.tokens {
		if (token < 1000 || token > 1999) && i != 0 && i != 7 {
			t.Errorf("token %d is %d", i, token)
		}
	}
	again := o.decide(&wire.Request{}, rand.New(rand.NewPCG(1, 2)))
	if !slices.Equal(again.tokens, got.tokens) {
		t.Error("the same seed draws another answer")
	}
}

func TestCheck(t *testing.T) {
	args := engineargs.Default()
	args.BlockSize, args.NumGPUBlocks = 16, 4
	o := outputs{standardLength: 16, recorded: map[string][]uint32{"r": make([]uint32, 60)}}
	number := func(n uint32) *uint32 { return &n }
	for _, test := range []struct {
		prompt      int
		most        *uint32
		annotations []string
		want        string
	}{
		{48, nil, nil, ""},
		{49, nil, nil, "need 5 KV blocks of 16, the pool has 4"},
		{4, number(60), nil, ""},
		{4, number(1<<32 - 1), nil, "KV blocks"},
		{0, nil, nil, "token_ids"},
		{4, number(0), nil, "max_tokens"},
		{4, number(1 << 20), []string{"x", "output_replay_id:r"}, ""},
		{5, number(1), []string{"output_replay_id:r"}, "KV blocks"},
	} {
		request := &wire.Request{
			TokenIDs: make([]uint32, test.prompt), StopConditions: wire.StopConditions{MaxTokens: test.most},
			Annotations: test.annotations,
		}
		got := o.check(request, &args)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}

func TestReadRecorded(t *testing.T) {
	text := `{"request_id": " a ", "output_length": 2, "output_token_ids": [1, 2]}

{"session_id": "s"}
{"session_id": "s", "output_tokens": 1, "output_token_ids": [3], "other": {}}
{"output_length": 1, "output_token_ids": [4]}`
	want := map[string][]uint32{"a": {1, 2}, "s:1": {3}, "line:4": {4}}
	if got, err := ReadRecorded(strings.NewReader(text)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for text, problem := range map[string]string{
		"\n{":                        "line 2",
		`{"output_token_ids": [1]}`:  "line 1: output_length: missing",
		`{"output_token_ids": [-1]}`: "line 1",
		`{"output_length": 2, "output_token_ids": [1]}`: "got 2, output_token_ids has 1",
		`{"output_length": 0, "output_token_ids": []}`:  "got none",
		`{"request_id": "a", "output_length": 1, "output_token_ids": [1]}
{"request_id": "a", "output_length": 1, "output_token_ids": [1]}`: `line 2: a second answer for "a"`,
	} {
		if _, err := ReadRecorded(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v, want %s", text, err, problem)
		}
	}
}

func FuzzReadRecorded(f *testing.F) {
	f.Add(`{"request_id": "a", "output_length": 2, "output_token_ids": [1, 2]}`)
	f.Fuzz(func(t *testing.T, text string) {
		answers, err := ReadRecorded(strings.NewReader(text))
		for key, tokens := range answers {
			if err != nil || key == "" || len(tokens) == 0 {
				t.Fatalf("%q: %v, %v", key, tokens, err)
			}
		}
	})
}
