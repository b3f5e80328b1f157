package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"dynosim/gocore/strictjson"
)

// Remote is a [Decider] that passes its questions on as text, to a rule in another language. They are JSON objects with
// the key "router"; it comes first, and marks questions for routers. Its value is the pool: "", "prefill" or "decode".
//
//	{"router":"","why":"begin","workers":16,"block_size":512,"blocks":16384}   the answer: {"tick_ms": 0.0}
//	{"router":"","why":"arrived","now_ms":3.5,"new":{...},"requests":[...],"prefill_tokens":[...],"active_blocks":[...]}
//
// Questions of a second and further replica have its number, from 1, as "replica".
//
// An answer is empty if all requests that were asked for are kept, else the id of a request, the place of its worker
// (-1 to refuse it), and 1 if there is more to ask for, with blanks between them. "failed" and an id, negative for
// none, end the run: who answers knows why. So does the answer to "begin", which is no other then.
type Remote struct {
	Ask func(question string) (answer string, err error)
	// Of says whose router is asked if there are several: the last member of every question, "of". "begin" has "make"
	// as well then: from what the router is made, and its settings.
	Of             string
	Make, Settings string

	room []byte
}

// IsThere is a question that is about no request: its answer is empty, and there is none if no process answers
// questions for routers.
const IsThere = `{"router":"","why":"there"}`

// AskedMode is the mode of routers that are a [Decider].
var AskedMode = Mode{Name: "python", New: func(o Options) Router { return newAskedReplicas(o) }, Asks: true}

// ErrRemote ends a run whose router has failed.
var ErrRemote = errors.New("the router failed")

// Begin implements [Decider].
func (t *Remote) Begin(pool Pool) (Wishes, error) {
	if t.Ask == nil {
		return Wishes{}, ErrRemote
	}
	question := fmt.Appendf(nil, `{"router":%q,"why":"begin","workers":%d,"block_size":%d,"blocks":%d`, pool.Stage,
		pool.Workers, pool.BlockSize, pool.Blocks)
	if t.Of != "" {
		question = append(appendText(append(appendText(append(question, `,"make":[`...), t.Make), ','), t.Settings),
			']')
	}
	answer, err := t.Ask(string(t.end(question)))
	if err != nil {
		return Wishes{}, err
	}
	if strings.HasPrefix(answer, "failed") {
		return Wishes{}, ErrRemote
	}
	o, err := strictjson.Decode(answer, strictjson.Schema{Fields: []strictjson.Field{
		{Name: "tick_ms", Type: strictjson.Number{Max: math.MaxFloat64}, Default: 0.0},
		{Name: "metrics_interval_ms", Type: strictjson.Number{Max: math.MaxFloat64}, Default: 0.0},
		{Name: "router_replicas", Type: strictjson.Integer{Min: 1, Max: 4096}, Default: 1},
	}})
	if err != nil {
		return Wishes{}, err
	}
	return Wishes{TickMs: o.Float("tick_ms"), MetricsMs: o.Float("metrics_interval_ms"),
		Replicas: o.Int("router_replicas")}, nil
}

var occasions = [...]string{Arrived: "arrived", Freed: "freed", Ticked: "ticked", More: "more", Ended: "ended"}

// Decide implements [Decider].
func (t *Remote) Decide(q *Question) (Verdict, error) {
	t.room = t.end(appendQuestion(t.room[:0], q))
	answer, err := t.Ask(string(t.room))
	if err != nil {
		return Verdict{ID: -1}, err
	}
	return parseVerdict(answer)
}

func parseVerdict(answer string) (Verdict, error) {
	if answer == "" {
		return Verdict{}, nil
	}
	words := strings.Split(answer, " ")
	if words[0] == "failed" && len(words) == 2 {
		id, err := strconv.ParseInt(words[1], 10, 32)
		return Verdict{ID: int32(id)}, errors.Join(ErrRemote, err)
	}
	if len(words) != 3 {
		return Verdict{ID: -1}, fmt.Errorf("got the answer %q, want three numbers", answer)
	}
	id, wrongID := strconv.ParseInt(words[0], 10, 32)
	place, wrongPlace := strconv.ParseInt(words[1], 10, 32)
	return Verdict{Decided: true, ID: int32(id), Place: int(place), More: words[2] == "1"},
		errors.Join(wrongID, wrongPlace)
}

func appendQuestion(dst []byte, q *Question) []byte {
	dst = fmt.Appendf(dst, `{"router":%q,"why":%q,"now_ms":`, q.Stage, occasions[q.Why])
	dst = appendReal(dst, q.AtMs)
	if q.Replica > 0 {
		dst = fmt.Appendf(dst, `,"replica":%d`, q.Replica)
	}
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
	return strictjson.AppendInts(append(dst, `,"active_blocks":`...), q.ActiveBlocks)
}

// end completes a question.
func (t *Remote) end(question []byte) []byte {
	if t.Of != "" {
		question = appendText(append(question, `,"of":`...), t.Of)
	}
	return append(question, '}')
}

// appendArrival appends what is known of the new request.
func appendArrival(dst []byte, q *Question) []byte {
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

// appendReal appends a number so that it is read as one with a fraction.
func appendReal(dst []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendFloat(dst, v, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
