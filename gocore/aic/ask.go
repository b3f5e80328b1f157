package aic

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"dynosim/gocore/timing"
)

// Client asks the SDK. Ask gets the answer to a question, both of them JSON; if it fails, there is no answer.
type Client struct {
	Ask func(question string) (answer string, err error)
}

// Session is a model that the SDK has loaded.
type Session struct {
	ID      int    // unique in the process
	Config  Config // with the version that is used
	Release string // of the SDK
	// Alias is the name by which the SDK knows the model, "" if it is that of the config.
	Alias string
	// Experts says that the SDK tells the expert layers of the model apart from the rest.
	Experts bool
	// Weights is the data type of most weights by the SDK's name, "" if it does not tell.
	Weights string
}

// sessionJSON is a Config in a question.
type sessionJSON struct {
	Backend       string `json:"backend"`
	System        string `json:"system"`
	Version       string `json:"version"`
	VersionGiven  bool   `json:"version_given"` // otherwise the SDK may use another version
	Model         string `json:"model"`
	TP            int    `json:"tp_size"`
	AttentionDP   int    `json:"attention_dp_size"`
	MoETP         int    `json:"moe_tp_size,omitempty"`
	MoEEP         int    `json:"moe_ep_size,omitempty"`
	Drafts        int    `json:"nextn,omitempty"`
	dataTypesJSON        // flat
}

type dataTypesJSON struct {
	GEMM    string `json:"gemm_dtype,omitempty"`
	MoE     string `json:"moe_dtype,omitempty"`
	FMHA    string `json:"fmha_dtype,omitempty"`
	KVCache string `json:"kv_cache_dtype,omitempty"`
	Comm    string `json:"comm_dtype,omitempty"`
}

// Open makes the SDK load the model of a session. Errors name the wrong field, if there is one.
func (c Client) Open(config Config) (Session, error) {
	question := sessionJSON{
		Backend: config.Backend, System: config.System, Version: config.Version, VersionGiven: config.Version != "",
		Model: config.Model, TP: config.TP, AttentionDP: config.AttentionDP, MoETP: config.MoETP, MoEEP: config.MoEEP,
		Drafts: config.Drafts, dataTypesJSON: dataTypesJSON(config.Types),
	}
	if !question.VersionGiven {
		question.Version = config.DefaultVersion()
	}
	var answer struct {
		ID      *int   `json:"session"`
		Version string `json:"version"`
		Release string `json:"release"`
		Alias   string `json:"alias"`
		Experts bool   `json:"experts"`
		Weights string `json:"weights"`
	}
	if err := c.exchange("open", question, &answer); err != nil {
		return Session{}, err
	}
	if answer.ID == nil || answer.Version == "" {
		return Session{}, errIncomplete
	}
	config.Version = answer.Version
	return Session{
		ID: *answer.ID, Config: config, Release: answer.Release, Alias: answer.Alias, Experts: answer.Experts,
		Weights: answer.Weights,
	}, nil
}

// Capacity describes the engine whose KV pool gets the memory that the model leaves.
type Capacity struct {
	BlockSize int // tokens
	MaxTokens int // of a pass
	Fraction  float64
	// ByEngine says that the size is estimated as the engine does, and not by the SDK; see [models.Memory].
	ByEngine bool
	MaxSeqs  int     // of a pass
	GPUGiB   float64 // 0 if the memory of the GPU is not known
	Release  string  // of the engine, "" for the newest
}

// PoolBlocks estimates how many blocks the KV pool of one attention data-parallel rank has. The backend of the session
// must have a Memory.
func (c Client) PoolBlocks(s Session, of Capacity) (int, error) {
	memory, _ := s.Config.Memory()
	question := map[string]any{
		"session": s.ID, "block_size": of.BlockSize, "max_num_tokens": of.MaxTokens,
		"memory_fraction_kind": memory.kind, "memory_fraction_value": of.Fraction,
	}
	var answer struct {
		Blocks *int `json:"blocks"`
	}
	switch err := c.exchange("capacity", question, &answer); {
	case err != nil:
		return 0, err
	case answer.Blocks == nil:
		return 0, errIncomplete
	case *answer.Blocks < 1 || *answer.Blocks > maxBlocks:
		return 0, fmt.Errorf("the AIC SDK estimates %d blocks", *answer.Blocks)
	}
	return *answer.Blocks, nil
}

// ModelConfig returns the config.json of the model of a session, and what the checkpoint says beside it of its
// quantisation, "" for nothing.
func (c Client) ModelConfig(s Session) (config, quantization string, err error) {
	var answer struct {
		Config       *string `json:"config"`
		Quantization string  `json:"quantization"`
	}
	if err := c.exchange("model_config", map[string]any{"session": s.ID}, &answer); err != nil {
		return "", "", err
	}
	if answer.Config == nil {
		return "", "", errIncomplete
	}
	return *answer.Config, answer.Quantization, nil
}

// KVBytes returns the size of a token's KV of the whole model, in bytes; 0 if the SDK does not know it.
func (c Client) KVBytes(s Session) (int, error) {
	var answer struct {
		Bytes *float64 `json:"bytes"`
	}
	switch err := c.exchange("kv_bytes", map[string]any{"session": s.ID}, &answer); {
	case err != nil:
		return 0, err
	case answer.Bytes == nil:
		return 0, nil
	case !(*answer.Bytes >= 1 && *answer.Bytes <= maxBlocks):
		return 0, errIncomplete
	}
	return int(math.Round(*answer.Bytes)), nil
}

// maxBlocks keeps the product of blocks and ranks within an int; no GPU has as many.
const maxBlocks = 1 << 31

// maxMs is 10,000 years: a prediction above it is no duration.
const maxMs = 3.15e14

// Predict gets the answers to questions, in their order. An error says that there are no answers at all.
func (c Client) Predict(s Session, questions []timing.Question) ([]timing.Answer, error) {
	rows := make([][4]int, len(questions))
	for i, q := range questions {
		rows[i] = [4]int{int(q.Kind), q.Batch, q.Tokens, q.Prefix}
	}
	var answer struct {
		Ms     []*float64        `json:"ms"`
		Errors map[string]string `json:"errors"`
	}
	if err := c.exchange("predict", map[string]any{"session": s.ID, "questions": rows}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Ms) != len(questions) {
		return nil, fmt.Errorf("the AIC SDK gave %d answers to %d questions", len(answer.Ms), len(questions))
	}
	answers := make([]timing.Answer, len(questions))
	for i, ms := range answer.Ms {
		switch {
		case ms == nil:
			answers[i].Err = errors.New(reason(answer.Errors[strconv.Itoa(i)]))
		case *ms > maxMs || *ms < -maxMs:
			answers[i].Err = fmt.Errorf("got %v ms", *ms)
		default:
			answers[i].Ms = *ms
		}
	}
	return answers, nil
}

func reason(given string) string {
	if given == "" {
		return "the AIC SDK gave no reason"
	}
	return given
}

var errIncomplete = errors.New("the AIC SDK's answer is incomplete")

// exchange asks one question and decodes the answer.
func (c Client) exchange(verb string, question, answer any) error {
	asked, err := json.Marshal(map[string]any{verb: question})
	if err != nil {
		return err
	}
	text, err := c.Ask(string(asked))
	if err != nil {
		return err
	}
	var refusal struct {
		Error *string `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &refusal); err != nil {
		return fmt.Errorf("the AIC SDK's answer: %w", err)
	}
	if refusal.Error != nil {
		return errors.New(reason(*refusal.Error))
	}
	if err := json.Unmarshal([]byte(text), answer); err != nil {
		return fmt.Errorf("the AIC SDK's answer: %w", err)
	}
	return nil
}
