package job

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"dynosim/gocore/aic/session"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// stockPlanner is ai-dynamo's planner, which the caller of a run drives. It answers the questions that planners of the
// caller answer (see [askedPlanner]), and two before them:
//
//	{"planner": "configure", "config": X}              -> {"mode": "agg", "target": "throughput", "version": "1.3.1"}
//	{"planner": "start", "pools": {}, "passes": null}  -> {}
//
// X is the text of planner_config. Pools are what the planner has to know of the engines, see stockPool; passes are
// those of benchmark, if there are any.
type stockPlanner struct {
	config   string   // a path or JSON text
	steps    int      // per axis of the benchmark
	warnings []string // once the planner is open
}

// parseStock returns nil without planner_config.
func parseStock(o *strictjson.Object) *stockPlanner {
	if !o.Given("planner_config") {
		return nil
	}
	return &stockPlanner{config: o.Text("planner_config"), steps: o.Int("benchmark_granularity")}
}

// checkPlanners refuses more than one planner, and options of ai-dynamo's without it.
func checkPlanners(o *strictjson.Object) error {
	given := ""
	for _, name := range []string{"planner", "planner_config", "autoscaler"} {
		switch {
		case !o.Given(name) || name == "planner" && !o.Bool(name):
		case given != "":
			return &strictjson.FieldError{Field: name, Got: o.Shown(name), Want: "it left out with " + given}
		default:
			given = name
		}
	}
	for _, name := range []string{"planner_python", "benchmark_granularity"} {
		if !o.Given("planner_config") && !o.AtDefault(name) {
			return &strictjson.FieldError{Field: name, Got: o.Shown(name), Want: "planner_config with it"}
		}
	}
	return nil
}

// stockReleases are the releases of ai-dynamo whose planner this was made for.
const stockReleases = "1.3."

// aimsAtSLA is the optimization target for which the planner models engines, and wants predictions to begin with.
const aimsAtSLA = "sla"

// open starts the planner and checks that it fits the run. Without a planner it does nothing.
func (s *stockPlanner) open(m *Monitor, d deployment, predictions *sdk) error {
	if s == nil {
		return nil
	}
	question, err := json.Marshal(struct {
		Planner string `json:"planner"`
		Config  string `json:"config"`
	}{"configure", s.config})
	if err != nil {
		return err
	}
	told, err := asked(m.Ask, string(question), strictjson.Field{Name: "mode", Type: strictjson.Text{}},
		strictjson.Field{Name: "target", Type: strictjson.Text{}},
		strictjson.Field{Name: "version", Type: strictjson.Text{}})
	if err != nil {
		return err
	}
	if version := told.Text("version"); !strings.HasPrefix(version, stockReleases) {
		s.warnings = append(s.warnings, fmt.Sprintf("planner_config: ai-dynamo is %s, and this was made for its "+
			"planner of %sx", version, stockReleases))
	}
	if err := checkPlannerMode(told.Text("mode"), d); err != nil {
		return err
	}
	pools := map[string]stockPool{"decode": stockPoolOf(d.args)}
	if d.disaggregated {
		pools["prefill"] = stockPoolOf(d.prefill)
	}
	var passes map[string][]stockPass
	if told.Text("target") == aimsAtSLA {
		if passes, err = s.benchmark(d, predictions); err != nil {
			return err
		}
	}
	if question, err = json.Marshal(struct {
		Planner string                 `json:"planner"`
		Pools   map[string]stockPool   `json:"pools"`
		Passes  map[string][]stockPass `json:"passes"`
	}{"start", pools, passes}); err != nil {
		return err
	}
	_, err = asked(m.Ask, string(question))
	return err
}

func checkPlannerMode(mode string, d deployment) error {
	want, pools := "agg", "one pool of workers"
	if d.disaggregated {
		want, pools = "disagg", "prefill and decode workers"
	}
	if mode == want {
		return nil
	}
	return fmt.Errorf("planner_config: mode: got %q, want %q in a run with %s", mode, want, pools)
}

// stockPool is what the planner learns of the engines of a pool.
type stockPool struct {
	MaxNumBatchedTokens *int `json:"max_num_batched_tokens"` // null for no limit
	MaxNumSeqs          *int `json:"max_num_seqs"`
	Tokens              int  `json:"tokens"` // that the KV pool has room for
	Drafts              int  `json:"drafts"`
}

func stockPoolOf(args engineargs.Args) stockPool {
	limit := func(n int) *int {
		if n == math.MaxInt {
			return nil
		}
		return &n
	}
	return stockPool{
		MaxNumBatchedTokens: limit(args.MaxNumBatchedTokens), MaxNumSeqs: limit(args.MaxNumSeqs),
		Tokens: args.NumGPUBlocks * args.BlockSize, Drafts: args.Drafts,
	}
}

// stockPass is a pass whose duration was predicted. One kind of requests is in it, prefill or decode.
type stockPass struct {
	Seconds  float64 `json:"seconds"`
	Requests int     `json:"requests"`
	Tokens   int     `json:"tokens"` // of all requests together
}

// benchmark predicts passes of prefill and of decode workers, from which the planner learns how fast engines are.
func (s *stockPlanner) benchmark(d deployment, predictions *sdk) (map[string][]stockPass, error) {
	prefill, options := d.args, []string{"extra_engine_args", "extra_engine_args"}
	if d.disaggregated {
		prefill, options = d.prefill, []string{"prefill_engine_args", "decode_engine_args"}
	}
	if prefill.AIC.Backend == "" || d.args.AIC.Backend == "" {
		s.warnings = append(s.warnings,
			"planner_config: the optimization target is sla, and engine arguments name no aic_backend: the planner "+
				"learns how fast engines are from the passes of the run only")
		return nil, nil
	}
	forPrefill, err := predictions.sessions.OfDurations(options[0], prefill)
	if err != nil {
		return nil, err
	}
	forDecode, err := predictions.sessions.OfDurations(options[1], d.args)
	if err != nil {
		return nil, err
	}
	passes := map[string][]stockPass{}
	if passes["prefill"], err = predicted(forPrefill, prefillQuestions(prefill, s.steps)); err != nil {
		return nil, err
	}
	if passes["decode"], err = predicted(forDecode, decodeQuestions(d.args, s.steps)); err != nil {
		return nil, err
	}
	return passes, nil
}

// What is asked for where the arguments of an engine set no limit.
const (
	benchmarkTokens    = 8192
	benchmarkSequences = 256
	benchmarkShortest  = 100 // tokens of a prompt
)

// benchmarkContexts are the lengths of the sequences in decode passes.
var benchmarkContexts = [...]int{500, 2000, 4000, 8000}

// prefillQuestions returns questions about single prompts up to what a pass may compute, in steps of equal length.
func prefillQuestions(args engineargs.Args, steps int) []timing.Question {
	longest := args.MaxNumBatchedTokens
	if longest == math.MaxInt || longest == 0 {
		longest = benchmarkTokens
	}
	var questions []timing.Question
	for tokens := benchmarkShortest; tokens <= longest; tokens += max(1, (longest-benchmarkShortest)/steps) {
		questions = append(questions, timing.Question{Kind: timing.Prefill, Batch: 1, Tokens: tokens})
	}
	return questions
}

// decodeQuestions returns questions about batches that fit into the KV pool.
func decodeQuestions(args engineargs.Args, steps int) []timing.Question {
	most := args.MaxNumSeqs
	if most == math.MaxInt || most == 0 {
		most = benchmarkSequences
	}
	room := args.NumGPUBlocks * args.BlockSize
	var questions []timing.Question
	for _, context := range benchmarkContexts {
		for batch := 1; batch <= most && batch*context <= room; batch += max(1, most/steps) {
			questions = append(questions, timing.Question{Kind: timing.Decode, Batch: batch, Tokens: context})
		}
	}
	return questions
}

// predicted leaves out passes without a prediction and those that take no time.
func predicted(by *session.Session, questions []timing.Question) ([]stockPass, error) {
	answers, err := by.Predict(questions)
	if err != nil {
		return nil, fmt.Errorf("planner_config: %w", err)
	}
	passes := []stockPass{}
	for i, answer := range answers {
		if q := questions[i]; answer.Err == nil && answer.Ms > 0 {
			passes = append(passes, stockPass{Seconds: answer.Ms / 1000, Requests: q.Batch, Tokens: q.Batch * q.Tokens})
		}
	}
	return passes, nil
}
