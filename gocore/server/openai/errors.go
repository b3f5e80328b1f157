package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/tokens"
)

// problem is an error in the schema of OpenAI, with its status.
type problem struct {
	status     int
	kind       string // "type" of the schema
	code       string // "" for null
	param      string // the member of the request that is wrong, "" for null
	message    string
	retryAfter int  // seconds, 0 for no such header
	messages   bool // in the schema of Anthropic instead
}

func (p *problem) Error() string { return p.message }

// body returns the JSON text of the problem.
func (p *problem) body() []byte {
	if p.messages {
		return p.messagesBody()
	}
	type inner struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	text, _ := json.Marshal(map[string]inner{"error": {p.message, p.kind, orNull(p.param), orNull(p.code)}})
	return text
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// badRequest returns an error of the client. A message about one member of the request begins with its name.
func badRequest(param, format string, args ...any) *problem {
	p := &problem{status: http.StatusBadRequest, kind: "invalid_request_error", param: param,
		message: fmt.Sprintf(format, args...)}
	if param != "" {
		p.message = param + ": " + p.message
	}
	return p
}

func tooLong(param, format string, args ...any) *problem {
	p := badRequest(param, format, args...)
	p.code = "context_length_exceeded"
	return p
}

func notFound(code, format string, args ...any) *problem {
	return &problem{status: http.StatusNotFound, kind: "invalid_request_error", code: code,
		message: fmt.Sprintf(format, args...)}
}

func unavailable(format string, args ...any) *problem {
	return &problem{
		status: http.StatusServiceUnavailable, kind: "server_error", code: "service_unavailable",
		message: fmt.Sprintf(format, args...), retryAfter: 1,
	}
}

func tooMany(format string, args ...any) *problem {
	return &problem{
		status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "rate_limit_exceeded",
		message: fmt.Sprintf(format, args...), retryAfter: 1,
	}
}

func failed(format string, args ...any) *problem {
	return &problem{status: http.StatusInternalServerError, kind: "server_error", code: "internal_error",
		message: fmt.Sprintf(format, args...)}
}

// asProblem makes a problem of any error.
func asProblem(err error) *problem {
	var p *problem
	var input *tokens.InputError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &input):
		return badRequest("", "%s", input.Reason)
	case errors.Is(err, context.Canceled):
		return &problem{
			status: statusClientGone, kind: "invalid_request_error",
			message: "the client closed its side of the connection before the answer; keep it open until then",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("the tokenizer did not answer in time")
	default:
		return failed("%s", err)
	}
}

// statusClientGone is the status in metrics of requests whose clients go away; nginx has made it up. Clients that have
// closed one side only and still read get 400.
const statusClientGone = 499

// write sends a problem as the whole answer.
func (p *problem) write(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	status := p.status
	if status == statusClientGone {
		status = http.StatusBadRequest
	}
	writeJSON(w, status, p.body())
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// decode reads a JSON object that a client has sent.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var semantic *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic):
		var inner *problem
		if errors.As(semantic.Err, &inner) {
			return badRequest(memberOf(semantic.JSONPointer), "%s", inner.message)
		}
		want := wanted(semantic.GoType)
		return badRequest(memberOf(semantic.JSONPointer), "got %s, want %s", shownKind(semantic, want), want)
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return badRequest(memberOf(syntax.JSONPointer), "there twice, want it once")
	case errors.As(err, &syntax):
		return badRequest("", "the body is no JSON object: %s at byte %d", syntax.Err, syntax.ByteOffset)
	default:
		return badRequest("", "the body is no JSON object: %s", err)
	}
}

// memberOf returns how messages call the place that a JSON pointer names.
func memberOf(at jsontext.Pointer) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(at), "/"), "/", ".")
}

func shownKind(e *json.SemanticError, want string) string {
	if len(e.JSONValue) > 0 && len(e.JSONValue) <= 40 {
		return string(e.JSONValue)
	}
	switch e.JSONKind {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '0':
		if strings.HasPrefix(want, "an integer") || want == "a number" {
			return "a number that does not fit"
		}
		return "a number"
	case 't', 'f':
		return "true or false"
	default:
		return "another value"
	}
}

// wanted says in words what a Go type takes.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "another type"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "an integer"
	case reflect.Uint32, reflect.Uint64:
		return "an integer >= 0"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}
