package openai

import (
	"context"
	"net/http"
	"time"

	"dynosim/gocore/server/answers"
)

// What follows is what routers and gateways ask a worker: SGLang's names and members, and vLLM's where it has them.

// only returns what a question is about: what it names, or the first model.
func (s *Server) only(r *http.Request) (target, error) {
	if name := r.URL.Query().Get("model"); name != "" {
		return s.resolve(r.Context(), name)
	}
	return s.first(r.Context())
}

// first returns what a request without a name is for: the first model, or what it is limited to.
func (s *Server) first(ctx context.Context) (target, error) {
	list := s.targets(ctx)
	if len(list) == 0 {
		return target{}, errNoModel
	}
	return list[0], nil
}

// modelInfo answers /model_info and /get_model_info.
func (s *Server) modelInfo(w http.ResponseWriter, r *http.Request) error {
	t, err := s.only(r)
	if err != nil {
		return err
	}
	m := t.model
	return respond(w, map[string]any{
		"model_path": m.Name, "tokenizer_path": m.Name, "served_model_name": t.name(), "is_generation": true,
		"max_model_len":             m.MaxLength,
		"preferred_sampling_params": nil, "weight_version": "default", "has_image_understanding": m.Images.Tokens > 0,
		"has_audio_understanding": false,
	})
}

// serverInfo answers /server_info and /get_server_info.
func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) error {
	t, err := s.only(r)
	if err != nil {
		return err
	}
	m := t.model
	workers := m.states()
	states := []workerLoad{}
	for i := range workers {
		states = append(states, loadOf(&workers[i]))
	}
	room := totalOf(workers)
	info := map[string]any{
		"model_path": m.Name, "tokenizer_path": m.Name, "served_model_name": t.name(), "version": s.config.Version,
		"status":  s.status(),
		"tp_size": 1, "pp_size": 1, "dp_size": 1, "load_balance_method": "round_robin", "disaggregation_mode": "null",
		"context_length": m.MaxLength, "max_req_input_len": m.MaxLength, "max_total_num_tokens": room.Capacity,
		"internal_states": states, "lora_paths": m.adapterNames(), "max_loras_per_batch": m.MaxAdapters,
		"enable_lora": len(m.adapterNames()) > 0,
	}
	if room.Limit > 0 {
		info["max_running_requests"] = room.Limit
	}
	if !m.elsewhere() {
		info["page_size"], info["backend"] = m.Args.BlockSize, m.Args.EngineType.String()
	}
	return respond(w, info)
}

func (m *Model) adapterNames() []string {
	names := []string{}
	for _, a := range m.loaded() {
		names = append(names, a.name)
	}
	return names
}

// workerLoad is a worker in /v1/loads. Each simulated worker counts as a rank.
type workerLoad struct {
	Rank     int     `json:"dp_rank"`
	Role     string  `json:"role,omitempty"`
	Running  int     `json:"num_running_reqs"`
	Waiting  int     `json:"num_waiting_reqs"`
	All      int     `json:"num_total_reqs"`
	Used     int     `json:"num_used_tokens"`
	Capacity int     `json:"max_total_num_tokens"`
	Usage    float64 `json:"token_usage"`
	Rate     float64 `json:"gen_throughput"`
	HitRate  float64 `json:"cache_hit_rate"`
	Busy     float64 `json:"utilization"`
	Limit    int     `json:"max_running_requests,omitzero"`
}

func loadOf(s *WorkerState) workerLoad {
	l := workerLoad{
		Rank: s.Number, Role: s.Pool, Running: s.Running, Waiting: s.Waiting, All: s.Running + s.Waiting,
		Used:     s.UsedBlocks * s.BlockSize,
		Capacity: s.Blocks * s.BlockSize, Usage: s.Usage(), Rate: s.Rate, HitRate: s.HitRate(), Busy: s.Usage(),
		Limit: s.Limit,
	}
	if s.Limit > 0 {
		l.Busy = min(1, share(s.Running, s.Limit))
	}
	return l
}

// totalOf adds up workers, of a server with two pools those that make answers: a prompt counts once.
func totalOf(workers []WorkerState) (sum workerLoad) {
	for i := range workers {
		if workers[i].Pool == workers[len(workers)-1].Pool {
			l := loadOf(&workers[i])
			sum.Limit += l.Limit
			sum.Capacity += l.Capacity
		}
	}
	return sum
}

// loads answers /loads and /v1/loads.
func (s *Server) loads(w http.ResponseWriter, r *http.Request) error {
	t, err := s.only(r)
	if err != nil {
		return err
	}
	list := []workerLoad{}
	var sum struct {
		Running int     `json:"total_running_reqs"`
		Waiting int     `json:"total_waiting_reqs"`
		All     int     `json:"total_reqs"`
		Usage   float64 `json:"avg_token_usage"`
		Rate    float64 `json:"avg_throughput"`
		Busy    float64 `json:"avg_utilization"`
	}
	workers := t.model.states()
	n := float64(max(1, len(workers)))
	for i := range workers {
		l := loadOf(&workers[i])
		list = append(list, l)
		sum.Running, sum.Waiting, sum.All = sum.Running+l.Running, sum.Waiting+l.Waiting, sum.All+l.All
		sum.Usage, sum.Rate, sum.Busy = sum.Usage+l.Usage/n, sum.Rate+l.Rate/n, sum.Busy+l.Busy/n
	}
	return respond(w, map[string]any{
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "version": s.config.Version, "dp_rank_count": len(list),
		"loads": list, "aggregate": sum,
	})
}

// load answers /get_load, which older routers ask.
func (s *Server) load(w http.ResponseWriter, r *http.Request) error {
	t, err := s.only(r)
	if err != nil {
		return err
	}
	list := []map[string]int{}
	workers := t.model.states()
	for i := range workers {
		l := loadOf(&workers[i])
		list = append(list, map[string]int{
			"rank": l.Rank, "dp_rank": l.Rank, "num_reqs": l.All, "num_waiting_reqs": l.Waiting, "num_tokens": l.Used,
		})
	}
	return respond(w, list)
}

// rendered is a prompt as engines get it.
type rendered struct {
	ID     string   `json:"request_id"`
	Model  string   `json:"model"`
	Tokens []uint32 `json:"token_ids"`
}

// renderCompletions answers /v1/completions/render: the tokens of prompts.
func (s *Server) renderCompletions(w http.ResponseWriter, r *http.Request) error {
	var body completionRequest
	t, err := s.readPlain(w, r, &body, &body.Model)
	if err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	questions, err := t.model.questions(r.Context(), &body)
	if err != nil {
		return err
	}
	list := []rendered{}
	for i := range questions {
		list = append(list, rendered{newID("cmpl-", body.RequestID), t.name(), questions[i].tokens})
	}
	return respond(w, list)
}

// renderChat answers /v1/chat/completions/render: the tokens of a chat.
func (s *Server) renderChat(w http.ResponseWriter, r *http.Request) error {
	var body chatRequest
	t, err := s.readPlain(w, r, &body, &body.Model)
	if err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	prompt, err := t.model.chatTokens(r.Context(), body.conversation())
	if err != nil {
		return err
	}
	if prompt, err = body.truncate(t.model, prompt); err != nil {
		return err
	}
	return respond(w, rendered{newID("chatcmpl-", body.RequestID), t.name(), prompt})
}

// name returns how answers call the target.
func (t target) name() string {
	if t.adapter.name != "" {
		return t.adapter.name
	}
	return t.model.Name
}

// healthGenerate answers /health_generate: whether the engines make a token.
func (s *Server) healthGenerate(w http.ResponseWriter, r *http.Request) error {
	t, err := s.only(r)
	if err != nil {
		return err
	}
	prompt, err := t.model.Tokenizer.Prompt(r.Context(), "a", true)
	if err != nil {
		return err
	}
	one := 1
	g, err := s.newGeneration(r.Context(), t, &sampling{IgnoreEOS: true}, []question{{tokens: prompt, said: "a"}}, &one,
		false)
	if err != nil {
		return err
	}
	g.id, g.shape = newID("HEALTH_CHECK_", ""), &nativeShape{}
	return g.answer(r.Context(), w)
}

var _ shape = (*nativeShape)(nil)

// reason returns why an answer has ended, as SGLang says it.
func reason(a *answers.Answer) map[string]any {
	switch {
	case a.Finish == "length":
		return map[string]any{"type": "length", "length": len(a.Tokens)}
	case a.StopReason != nil:
		return map[string]any{"type": "stop", "matched": a.StopReason}
	default:
		return map[string]any{"type": a.Finish}
	}
}
