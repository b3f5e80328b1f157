package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

// A router in Python decides by questions of the run ([Monitor.Ask]), which are JSON objects with the key "router"; it comes first, as
// the caller tells questions for routers from others by it. Its value is the pool: "", "prefill" or "decode".
//
//	{"router":"","why":"begin","workers":16,"block_size":512,"blocks":16384}   the answer: {"tick_ms": 0.0}
//	{"router":"","why":"arrived","now_ms":3.5,"new":{...},"requests":[...],"prefill_tokens":[...],"active_blocks":[...]}
//
// An answer is empty if all requests that were asked for are kept, else the id of a request, the place of its worker (-1 to refuse
// it), and 1 if there is more to ask for, with blanks between them. "failed" and an id, negative for none, end the run: the caller
// knows why. So does the answer to "begin", which is no other then.

// askedMode is the mode of routers in Python.
var askedMode = router.Mode{Name: "python", New: func(o router.Options) router.Router { return router.NewAsked(o) }, Asks: true}

// checkAsked refuses what a router in Python cannot be combined with.
func checkAsked(o *strictjson.Object) error {
	if !o.Given("router") {
		return nil
	}
	if o.Given("router_mode") {
		return &strictjson.FieldError{Field: "router_mode", Got: o.Shown("router_mode"), Want: "it left out with router " + o.Shown("router")}
	}
	if mode := routerMode(o); !mode.Asks || !o.Given("router_config") {
		return nil
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(o.Text("router_config")), &settings); err != nil {
		return &strictjson.FieldError{Field: "router_config", Got: o.Shown("router_config"), Want: "an object"}
	}
	return nil
}

// askedFile is the file that a router in Python is read from, "" if it comes from a module.
func askedFile(asked string) string {
	path, _, _ := cutLast(asked, ":")
	if strings.HasSuffix(path, ".py") {
		return path
	}
	return ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// errRouter ends a run whose router has failed.
var errRouter = errors.New("the router failed")

// pythonRouter passes the questions of a router to Python.
type pythonRouter struct {
	ask  func(question string) (answer string, err error)
	room []byte
}

// Begin implements [router.Decider].
func (p *pythonRouter) Begin(pool router.Pool) (router.Wishes, error) {
	if p.ask == nil {
		return router.Wishes{}, errRouter
	}
	answer, err := p.ask(fmt.Sprintf(`{"router":%q,"why":"begin","workers":%d,"block_size":%d,"blocks":%d}`, pool.Stage, pool.Workers, pool.BlockSize, pool.Blocks))
	if err != nil {
		return router.Wishes{}, err
	}
	if strings.HasPrefix(answer, "failed") {
		return router.Wishes{}, errRouter
	}
	o, err := strictjson.Decode(answer, strictjson.Schema{Fields: []strictjson.Field{{Name: "tick_ms", Type: strictjson.Number{Max: math.MaxFloat64}, Default: 0.0}}})
	if err != nil {
		return router.Wishes{}, err
	}
	return router.Wishes{TickMs: o.Float("tick_ms")}, nil
}

var occasions = [...]string{router.Arrived: "arrived", router.Freed: "freed", router.Ticked: "ticked", router.More: "more", router.Ended: "ended"}

// Decide implements [router.Decider].
func (p *pythonRouter) Decide(q *router.Question) (router.Verdict, error) {
	p.room = appendQuestion(p.room[:0], q)
	answer, err := p.ask(string(p.room))
	if err != nil {
		return router.Verdict{ID: -1}, err
	}
	return parseVerdict(answer)
}

func parseVerdict(answer string) (router.Verdict, error) {
	if answer == "" {
		return router.Verdict{}, nil
	}
	words := strings.Split(answer, " ")
	if words[0] == "failed" && len(words) == 2 {
		id, err := strconv.ParseInt(words[1], 10, 32)
		return router.Verdict{ID: int32(id)}, errors.Join(errRouter, err)
	}
	if len(words) != 3 {
		return router.Verdict{ID: -1}, fmt.Errorf("got the answer %q, want three numbers", answer)
	}
	id, wrongID := strconv.ParseInt(words[0], 10, 32)
	place, wrongPlace := strconv.ParseInt(words[1], 10, 32)
	return router.Verdict{Decided: true, ID: int32(id), Place: int(place), More: words[2] == "1"}, errors.Join(wrongID, wrongPlace)
}

func appendQuestion(dst []byte, q *router.Question) []byte {
	dst = fmt.Appendf(dst, `{"router":%q,"why":%q,"now_ms":`, q.Stage, occasions[q.Why])
	dst = appendReal(dst, q.AtMs)
	if q.New != nil {
		dst = appendArrival(append(dst, `,"new":{`...), q)
	}
	if len(q.Left) > 0 {
		dst = append(dst, `,"left":[`...)
		for _, l := range q.Left {
			dst = appendReal(fmt.Appendf(dst, "%d,%d,", l.ID, l.Worker), l.AtMs)
			dst = append(dst, ',')
		}
		dst[len(dst)-1] = ']'
	}
	if len(q.Withdrawn) > 0 {
		dst = strictjson.AppendInts(append(dst, `,"withdrawn":`...), q.Withdrawn)
	}
	if q.Workers != nil {
		dst = strictjson.AppendInts(append(dst, `,"ids":`...), q.Workers)
	}
	dst = strictjson.AppendInts(append(dst, `,"requests":`...), q.Requests)
	dst = strictjson.AppendInts(append(dst, `,"prefill_tokens":`...), q.PrefillTokens)
	return append(strictjson.AppendInts(append(dst, `,"active_blocks":`...), q.ActiveBlocks), '}')
}

// appendArrival appends what is known of the new request.
func appendArrival(dst []byte, q *router.Question) []byte {
	r := q.New
	dst = fmt.Appendf(dst, `"id":%d,"prompt_tokens":%d`, r.ID, r.PromptTokens)
	if r.Session != "" {
		dst = appendText(append(dst, `,"session":`...), r.Session)
	}
	if r.Tenant != "" {
		dst = appendText(append(dst, `,"tenant":`...), r.Tenant)
	}
	if r.DeadlineMs != 0 {
		dst = appendReal(append(dst, `,"deadline_ms":`...), r.DeadlineMs)
	}
	if r.Priority != 0 {
		dst = fmt.Appendf(dst, `,"priority":%d`, r.Priority)
	}
	if r.StrictPriority != 0 {
		dst = fmt.Appendf(dst, `,"strict_priority":%d`, r.StrictPriority)
	}
	if len(q.Cached) > 0 {
		dst = append(dst, `,"cached":[`...)
		for _, c := range q.Cached {
			dst = fmt.Appendf(dst, "%d,%d,", c.Place, c.Blocks)
		}
		dst[len(dst)-1] = ']'
	}
	return append(dst, '}')
}

func appendText(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // a string has no other values than those that JSON can have
		return append(dst, `""`...)
	}
	return append(dst, quoted...)
}

// named gives the request at which a router in Python has failed the name that messages use. Attempts of runs with faults keep their
// numbers.
func (r *run) named(err error) error {
	var decision *router.DecisionError
	if errors.As(err, &decision) && decision.ID >= 0 && r.faults == nil {
		decision.Name = r.workload.TurnName(decision.ID)
	}
	return err
}

// askRouters has routers in Python decide.
func (r *run) askRouters() {
	if !r.routing.Mode.Asks {
		return
	}
	for i, stage := range r.stages {
		stage.Decider, stage.Blocks = &pythonRouter{ask: r.monitor.Ask}, r.deployment.args.NumGPUBlocks
		if i == 0 && r.deployment.disaggregated {
			stage.Blocks = r.deployment.prefill.NumGPUBlocks
		}
	}
}
