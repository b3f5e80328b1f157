package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"dynosim/gocore/strictjson"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Fault is a fault on purpose, for tests of clients: it meets a share of the requests.
type Fault struct {
	Share   float64
	Status  int // 0: none
	Message string
	// RetryAfter is in seconds.
	RetryAfter int
	DelayMs    float64
	// BreakAfter is the number of tokens after which the connection is broken off; it needs no stream.
	BreakAfter  *int
	Model, Path string
}

var faultFields = []strictjson.Field{
	{Name: "share", Type: strictjson.Number{Max: 1}, Required: true},
	{Name: "status", Type: strictjson.Integer{Min: 400, Max: 599}},
	{Name: "message", Type: strictjson.Text{}},
	{Name: "retry_after_s", Type: strictjson.Integer{}},
	{Name: "delay_ms", Type: strictjson.Number{Max: 3.6e6}},
	{Name: "break_after_tokens", Type: strictjson.Integer{}},
	{Name: "model", Type: strictjson.Text{}},
	{Name: "path", Type: strictjson.Enum{Choices: []string{chatPath, completionsPath, responsesPath, messagesPath,
		embeddingsPath, nativePath}}},
}

// byHeader are the fields of a fault that a request asks for itself.
var byHeader = slices.DeleteFunc(slices.Clone(faultFields), func(f strictjson.Field) bool {
	return f.Name == "share" || f.Name == "model" || f.Name == "path"
})

// faultHeader names the fault that a request is to meet, as an object of --inject-errors without share, model and path.
const faultHeader = "X-Inject-Error"

// asked adds the fault that the headers of a request ask for to those that it has drawn.
func (i *injected) asked(headers http.Header) (*injected, error) {
	text := headers.Get(faultHeader)
	if text == "" {
		return i, nil
	}
	if len(text) > maxFaultHeader {
		return nil, badRequest(faultHeader, "got %d bytes, want at most %d", len(text), maxFaultHeader)
	}
	fault, err := parseFault(text, byHeader)
	if err != nil {
		return nil, badRequest(faultHeader, "%s", err)
	}
	if i == nil {
		i = &injected{}
	}
	i.add(&fault)
	return i, nil
}

// maxFaultHeader bounds the header, in bytes.
const maxFaultHeader = 4096

// Faults decide which request meets which fault.
type Faults struct {
	list []Fault
	mu   sync.Mutex
	rng  *rand.Rand
}

// ParseFaults reads a JSON object, or a list of them. Equal seeds give equal decisions to requests in equal order.
func ParseFaults(text string, seed uint64) (*Faults, error) {
	wrong := &strictjson.FieldError{Got: fmt.Sprintf("%.64q", text), Want: "a JSON object or a list of them"}
	switch begin := strings.TrimSpace(text); {
	case strings.HasPrefix(begin, "{"):
		fault, err := parseFault(text, faultFields)
		return newFaults([]Fault{fault}, seed), err
	case !strings.HasPrefix(begin, "["):
		return nil, wrong
	}
	var objects []jsontext.Value
	if json.Unmarshal([]byte(text), &objects) != nil {
		return nil, wrong
	}
	list := make([]Fault, len(objects))
	for i, object := range objects {
		var err error
		if list[i], err = parseFault(string(object), faultFields); err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
	}
	return newFaults(list, seed), nil
}

// Models returns the names of the models that faults are limited to.
func (f *Faults) Models() (names []string) {
	if f == nil {
		return nil
	}
	for i := range f.list {
		if name := f.list[i].Model; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func newFaults(list []Fault, seed uint64) *Faults {
	return &Faults{list: list, rng: rand.New(rand.NewPCG(seed, uint64(len(list))))}
}

func parseFault(text string, fields []strictjson.Field) (Fault, error) {
	o, err := strictjson.Decode(text, strictjson.Schema{Fields: fields})
	if err != nil {
		return Fault{}, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return Fault{}, err
	}
	f := Fault{Status: o.Int("status"), Message: o.Text("message"), RetryAfter: o.Int("retry_after_s"),
		DelayMs: o.Float("delay_ms")}
	if len(fields) == len(faultFields) {
		f.Share, f.Model, f.Path = o.Float("share"), o.Text("model"), o.Text("path")
	}
	if o.Given("break_after_tokens") {
		tokens := o.Int("break_after_tokens")
		f.BreakAfter = &tokens
	}
	if f.Status == 0 && f.DelayMs == 0 && f.BreakAfter == nil {
		return f, fmt.Errorf("got a fault that does nothing, want status, delay_ms or break_after_tokens in it")
	}
	return f, nil
}

// draw decides what a request meets.
func (f *Faults) draw(path, model string) *injected {
	if f == nil {
		return nil
	}
	var i injected
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.list {
		fault := &f.list[n]
		if fault.Path != "" && fault.Path != path || fault.Model != "" && fault.Model != model ||
			f.rng.Float64() >= fault.Share {
			continue
		}
		i.add(fault)
	}
	return &i
}

// add makes a request meet one more fault.
func (i *injected) add(fault *Fault) {
	i.delay += time.Duration(fault.DelayMs * 1e6)
	if fault.Status != 0 && i.problem == nil {
		i.problem = fault.problem()
	}
	if fault.BreakAfter != nil && i.breakAfter == nil {
		i.breakAfter = fault.BreakAfter
	}
}

func (f *Fault) problem() *problem {
	p := &problem{status: f.Status, kind: "server_error", code: "injected", message: f.Message,
		retryAfter: f.RetryAfter}
	if f.Status < 500 {
		p.kind = "invalid_request_error"
	}
	if f.Status == http.StatusTooManyRequests {
		p.kind = "rate_limit_error"
	}
	if p.message == "" {
		p.message = "a fault on purpose: --inject-errors or " + faultHeader + " asks for it"
	}
	return p
}

// injected is what one request meets.
type injected struct {
	delay      time.Duration
	problem    *problem
	breakAfter *int
}

// meet waits, and returns the error that the request gets, nil for none.
func (i *injected) meet(ctx context.Context) error {
	if i.delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(i.delay):
		}
	}
	if i.problem == nil {
		return nil
	}
	return i.problem
}

// breaks reports whether the connection is to be broken off now.
func (i *injected) breaks(choices []*choice) bool {
	if i == nil || i.breakAfter == nil {
		return false
	}
	sent := 0
	for _, c := range choices {
		sent += c.sent
	}
	return sent >= *i.breakAfter
}

// upTo returns how many of the known tokens of a choice are sent before the break.
func (i *injected) upTo(known int, c *choice, choices []*choice) int {
	if i == nil || i.breakAfter == nil {
		return known
	}
	left := *i.breakAfter
	for _, other := range choices {
		left -= other.sent
	}
	return min(known, c.sent+max(left, 0))
}

type injectedKey struct{}

func injectedInto(ctx context.Context) *injected {
	i, _ := ctx.Value(injectedKey{}).(*injected)
	return i
}
