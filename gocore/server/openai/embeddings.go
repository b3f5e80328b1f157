package openai

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/go-json-experiment/json"
)

// Sizes of vectors.
const (
	standardDimensions = 1024
	maxDimensions      = 8192
)

// embeddingsRequest is the body of /v1/embeddings.
type embeddingsRequest struct {
	sampling   `json:",inline"`
	Input      prompts `json:"input"`
	Encoding   string  `json:"encoding_format"`
	Dimensions *int    `json:"dimensions"`
	// AddSpecialTokens is vLLM's.
	AddSpecialTokens *bool `json:"add_special_tokens"`
}

func (r *embeddingsRequest) check() error {
	switch {
	case r.Input.count() == 0:
		return badRequest("input", "missing, want a string, a list of tokens, or a list of either")
	case r.Input.count() > maxAnswers:
		return badRequest("input", "got %d inputs, want at most %d", r.Input.count(), maxAnswers)
	case r.Encoding != "" && r.Encoding != "float" && r.Encoding != "base64":
		return badRequest("encoding_format", "got %q, want float or base64", shortened([]byte(r.Encoding)))
	case r.Dimensions != nil && (*r.Dimensions < 1 || *r.Dimensions > maxDimensions):
		return badRequest("dimensions", "got %d, want an integer from 1 to %d", *r.Dimensions, maxDimensions)
	}
	return r.sampling.check()
}

// embeddings answers /v1/embeddings. Engines compute the prompts, in passes that end with one token each, as a pooling
// pass does.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var body embeddingsRequest
	t, r, err := s.read(w, r, &body, &body.sampling)
	if err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	if t.model.elsewhere() {
		return badRequest("model", "workers elsewhere make text, no vectors; want --standalone")
	}
	asked := completionRequest{Prompt: body.Input, AddSpecialTokens: body.AddSpecialTokens}
	asked.Truncate = body.Truncate
	questions, err := t.model.questions(r.Context(), &asked)
	if err != nil {
		return err
	}
	one := 1
	g, err := s.newGeneration(r.Context(), t, &sampling{Priority: body.Priority, CacheSalt: body.CacheSalt}, questions,
		&one, false)
	if err != nil {
		return err
	}
	shape := &embeddingShape{dimensions: standardDimensions, packed: body.Encoding == "base64"}
	if body.Dimensions != nil {
		shape.dimensions = *body.Dimensions
	}
	for i := range questions {
		shape.seeds = append(shape.seeds, seedOf(t.model.Answers.Seed, questions[i].tokens))
	}
	g.id, g.shape = newID("embd-", body.RequestID), shape
	return g.answer(r.Context(), w)
}

// seedOf returns a seed that is equal for equal prompts.
func seedOf(seed uint64, prompt []uint32) uint64 {
	h := fnv.New64a()
	b := binary.LittleEndian.AppendUint64(nil, seed)
	for _, token := range prompt {
		b = binary.LittleEndian.AppendUint32(b, token)
	}
	_, _ = h.Write(b)
	return h.Sum64()
}

// embeddingShape is the form of /v1/embeddings, which has no streams.
type embeddingShape struct {
	dimensions int
	packed     bool // in base64
	seeds      []uint64
}

func (*embeddingShape) endpoint() string { return "embeddings" }

func (*embeddingShape) appendPart(b []byte, _ *generation, _ *choice, _ int) []byte { return b }

func (*embeddingShape) appendEnd(b []byte, _ *generation) []byte { return b }

func (*embeddingShape) appendFailure(b []byte, _ *problem) []byte { return b }

func (*embeddingShape) logprobs(*generation, *choice, int, int) []byte { return []byte("null") }

// vector makes up a vector of length one.
func (s *embeddingShape) vector(seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, uint64(s.dimensions)))
	drawn, sum := make([]float64, s.dimensions), 0.0
	for i := range drawn {
		drawn[i] = rng.NormFloat64()
		sum += drawn[i] * drawn[i]
	}
	vector := make([]float32, s.dimensions)
	for i := range vector {
		vector[i] = float32(drawn[i] / math.Sqrt(sum))
	}
	return vector
}

func (s *embeddingShape) whole(g *generation) []byte {
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	type counts struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	items := make([]item, len(s.seeds))
	for i, seed := range s.seeds {
		vector := s.vector(seed)
		items[i] = item{Object: "embedding", Index: i, Embedding: vector}
		if s.packed {
			b := make([]byte, 0, 4*len(vector))
			for _, x := range vector {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			items[i].Embedding = base64.StdEncoding.EncodeToString(b)
		}
	}
	text, _ := json.Marshal(struct {
		ID     string `json:"id"`
		Object string `json:"object"`
		Data   []item `json:"data"`
		Model  string `json:"model"`
		Usage  counts `json:"usage"`
	}{g.id, "list", items, g.modelName(), counts{g.prompt, g.prompt}})
	return text
}
