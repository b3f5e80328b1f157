package aic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dynosim/gocore/timing"
)

func TestParse(t *testing.T) {
	small := Config{Backend: "vllm", System: "s", Model: "m", TP: 1, AttentionDP: 1}
	with := func(change func(*Config)) Config {
		c := small
		change(&c)
		return c
	}
	const head = `{"aic_backend":"vllm","aic_system":"s","aic_model_path":"m"`
	for _, c := range []struct {
		rest string
		want Config
	}{
		{`}`, small},
		{`,"aic_tp_size":null,"aic_gemm_dtype":null}`, small},
		{`,"aic_tp_size":4,"aic_moe_tp_size":2,"aic_moe_ep_size":2,"aic_attention_dp_size":8}`,
			with(func(c *Config) { c.TP, c.MoETP, c.MoEEP, c.AttentionDP = 4, 2, 2, 8 })},
		{`,"aic_backend_version":"0.1","aic_nextn":5,"aic_kv_cache_dtype":"int4","aic_comm_dtype":"NULL",` +
			`"aic_fmha_dtype":" fp8"}`,
			with(func(c *Config) {
				c.Version, c.Drafts, c.Types = "0.1", 5, DataTypes{KVCache: "int4_wo", FMHA: "fp8"}
			})},
	} {
		got, warnings, err := Parse(head + c.rest)
		if err != nil || got != c.want || warnings != nil {
			t.Errorf("%s: got %+v, %q, %v, want %+v", c.rest, got, warnings, err, c.want)
		}
	}
	_, warnings, err := Parse(head + `,"aic_nextn":1,"aic_nextn_accept_rates":"0.5"}`)
	if err != nil || len(warnings) != 1 ||
		warnings[0] != "aic_nextn_accept_rates has no effect on how long prompts take" {
		t.Errorf("got %q, %v", warnings, err)
	}
	for _, test := range []struct{ text, want string }{
		{`[]`, "got [], want a JSON object"},
		{`{"aic_backend":"vllm"}`, "aic_system: got nothing, want a string that is not empty"},
		{head + `,"aic_tp_size":0}`, "aic_tp_size: got 0, want an integer >= 1"},
		{head + `,"aic_moe_tp_size":0}`, "aic_moe_tp_size: got 0, want an integer >= 1"},
		{head + `,"aic_moe_ep_size":-1}`, "aic_moe_ep_size: got -1, want an integer from 0 to 2147483647"},
		{head + `,"aic_nextn":6}`, "aic_nextn: got 6, want an integer from 1 to 5"},
		{head + `,"aic_nextn_accept_rates":"1"}`, `aic_nextn_accept_rates: got "1", want aic_nextn set as well`},
		{head + `,"aic_nextn":1,"aic_nextn_accept_rates":"0.5,2"}`,
			`aic_nextn_accept_rates: entry 1: got "2", want a number from 0 to 1`},
		{head + `,"aic_sytem":"x"}`, `unknown field "aic_sytem", did you mean "aic_system"?`},
	} {
		if _, _, err := Parse(test.text); err == nil || err.Error() != test.want {
			t.Errorf("%s:\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

func TestName(t *testing.T) {
	c := Config{Backend: "vllm", System: "h200_sxm", Model: "m", Version: "0.19.0", TP: 2, AttentionDP: 1}
	if got, want := c.Name(), "aic: m, h200_sxm, vllm 0.19.0, tp 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.MoETP, c.MoEEP, c.AttentionDP, c.Drafts, c.Types.KVCache = 1, 4, 2, 3, "fp8"
	if got, want := c.Name(), "aic: m, h200_sxm, vllm 0.19.0, tp 2, moe tp 1, moe ep 4, attention dp 2, nextn 3, "+
		"kv cache fp8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// sdk answers with one text and keeps the question.
type sdk struct {
	question, answer string
	err              error
}

func (s *sdk) client() Client {
	return Client{Ask: func(question string) (string, error) {
		s.question = question
		return s.answer, s.err
	}}
}

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		config      Config
		question    string
		wantVersion string
	}{
		{Config{Backend: "vllm", System: "s", Model: "m", TP: 1, AttentionDP: 1},
			`{"open":{"backend":"vllm","system":"s","version":"0.19.0","version_given":false,"model":"m","tp_size":1,` +
				`"attention_dp_size":1}}`, "0.24.0"},
		{Config{Backend: "sglang", System: "s", Model: "m", Version: "9", TP: 2, AttentionDP: 3, MoETP: 4, MoEEP: 5,
			Drafts: 1,
			Types:  DataTypes{"a", "b", "c", "d", "e"}},
			`{"open":{"backend":"sglang","system":"s","version":"9","version_given":true,"model":"m","tp_size":2,` +
				`"attention_dp_size":3,` +
				`"moe_tp_size":4,"moe_ep_size":5,"nextn":1,"gemm_dtype":"a","moe_dtype":"b","fmha_dtype":"c",` +
				`"kv_cache_dtype":"d","comm_dtype":"e"}}`, "0.24.0"},
		{Config{Backend: "other", System: "s", Model: "m", TP: 1, AttentionDP: 1},
			`{"open":{"backend":"other","system":"s","version":"0.19.0","version_given":false,"model":"m","tp_size":1,` +
				`"attention_dp_size":1}}`, "0.24.0"},
	} {
		s := &sdk{answer: `{"session":7,"version":"0.24.0","release":"0.12.0"}`}
		got, err := s.client().Open(c.config)
		if s.question != c.question {
			t.Errorf("asked %s, want %s", s.question, c.question)
		}
		want := c.config
		want.Version = c.wantVersion
		if err != nil || got != (Session{ID: 7, Config: want, Release: "0.12.0"}) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestPoolBlocks(t *testing.T) {
	session := Session{ID: 3, Config: Config{Backend: "trtllm", AttentionDP: 2}}
	s := &sdk{answer: `{"blocks":100}`}
	blocks, err := s.client().PoolBlocks(session, Capacity{BlockSize: 32, MaxTokens: 8192, Fraction: 0.5})
	if blocks != 100 || err != nil {
		t.Errorf("got %d, %v, want 100", blocks, err)
	}
	if want := `{"capacity":{"block_size":32,"max_num_tokens":8192,"memory_fraction_kind":"of_free",` +
		`"memory_fraction_value":0.5,"session":3}}`; s.question != want {
		t.Errorf("asked %s, want %s", s.question, want)
	}
	for _, answer := range []string{`{"blocks":0}`, `{"blocks":-5}`, `{"blocks":1e300}`, `{}`,
		`{"error":"no memory left"}`} {
		s.answer = answer
		if blocks, err := s.client().PoolBlocks(session, Capacity{}); err == nil {
			t.Errorf("%s: got %d", answer, blocks)
		}
	}
}

func TestPredict(t *testing.T) {
	questions := []timing.Question{{Kind: timing.Prefill, Batch: 1, Tokens: 1000, Prefix: 64},
		{Kind: timing.Decode, Batch: 4, Tokens: 2048}}
	s := &sdk{answer: `{"ms":[3.5,null],"errors":{"1":"beyond the data"}}`}
	got, err := s.client().Predict(Session{ID: 2}, questions)
	if want := `{"predict":{"questions":[[0,1,1000,64],[1,4,2048,0]],"session":2}}`; s.question != want {
		t.Errorf("asked %s, want %s", s.question, want)
	}
	if err != nil || len(got) != 2 || got[0].Ms != 3.5 || got[0].Err != nil || got[1].Err == nil ||
		got[1].Err.Error() != "beyond the data" {
		t.Errorf("got %v, %v", got, err)
	}
	for answer, want := range map[string]string{
		`{"ms":[1]}`:         "the AIC SDK gave 1 answers to 2 questions",
		`{"error":"broken"}`: "broken",
		`{"error":""}`:       "the AIC SDK gave no reason",
		`nonsense`:           "the AIC SDK's answer: invalid character 'o' in literal null (expecting 'u')",
		`{"ms":5}`: "the AIC SDK's answer: json: cannot unmarshal number into Go struct field .ms of type " +
			"[]*float64",
	} {
		s.answer = answer
		if _, err := s.client().Predict(Session{}, questions); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", answer, err, want)
		}
	}
	s.answer = `{"ms":[1e300,null]}`
	got, err = s.client().Predict(Session{}, questions)
	if err != nil || got[0].Err == nil || got[1].Err == nil {
		t.Errorf("got %v, %v", got, err)
	}
	gone := errors.New("gone")
	s.err = gone
	if _, err := s.client().Predict(Session{}, questions); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
}

// FuzzParse looks for panics, errors of several lines, and configs that break their promises.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"aic_backend":"vllm","aic_system":"s","aic_model_path":"m","aic_tp_size":4,"aic_moe_ep_size":2}`,
		`{"aic_backend":"vllm","aic_system":"s","aic_model_path":"m","aic_nextn":2,"aic_nextn_accept_rates":"0.5,x"}`,
		`{"aic_backend":"vllm","aic_system":"s","aic_model_path":"m","aic_gemm_dtype":"int4","aic_moe_dtype":" Auto "}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		if c.Backend == "" || c.System == "" || c.Model == "" || c.TP < 1 || c.AttentionDP < 1 || c.MoETP < 0 ||
			c.MoEEP < 0 || c.Drafts > 5 {
			t.Errorf("accepted %+v", c)
		}
	})
}

// FuzzAnswers looks for panics, and for answers that no question was asked for.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"session":1,"version":"2","blocks":5,"ms":[1,null],"errors":{"1":"x"}}`, `{"error":"x"}`, `{"error":null}`,
		`null`, `[]`,
		`{"ms":[1e308,-1e308]}`, `{"blocks":2147483648}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		client := Client{Ask: func(question string) (string, error) {
			if !json.Valid([]byte(question)) {
				t.Errorf("asked %s", question)
			}
			return answer, nil
		}}
		session, err := client.Open(Config{Backend: "vllm", TP: 1, AttentionDP: 1})
		if err == nil && session.Config.Version == "" {
			t.Error("a session without a version")
		}
		if blocks, err := client.PoolBlocks(Session{Config: Config{Backend: "vllm", AttentionDP: 1 << 31}},
			Capacity{}); err == nil && blocks < 1 {
			t.Errorf("a pool of %d blocks", blocks)
		}
		answers, err := client.Predict(session, make([]timing.Question, 2))
		if err == nil && len(answers) != 2 {
			t.Errorf("got %d answers", len(answers))
		}
	})
}
