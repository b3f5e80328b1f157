package serve

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dynosim/gocore/live/plane"
)

// environment is the value of each environment variable. It is a part of the description, so that a process depends on
// nothing else.
type environment map[string]string

func newEnvironment(list []string) environment {
	e := environment{}
	for _, text := range list {
		if name, value, found := strings.Cut(text, "="); found {
			e[name] = value
		}
	}
	return e
}

func (e environment) get(name string) string { return e[name] }

func (e environment) truth(name string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(e[name]))
}

// number returns the whole number that a variable holds, standard if it is not set.
func (e environment) number(name string, standard, low, high int) (int, error) {
	text := strings.TrimSpace(e[name])
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		want := fmt.Sprintf("an integer from %d to %d", low, high)
		if high == math.MaxInt {
			want = fmt.Sprintf("an integer >= %d", low)
		}
		return 0, fmt.Errorf("environment variable %s: got %q, want %s", name, text, want)
	}
	return n, nil
}

// defaults are the options whose default an environment variable may change.
var defaults = map[string]string{
	"discovery_backend": "DYN_DISCOVERY_BACKEND",
	"request_plane":     "DYN_REQUEST_PLANE",
	"event_plane":       "DYN_EVENT_PLANE",
	"listen_host":       "DYN_LISTEN_HOST",
}

// withDefaults adds to a description the options that environment variables set.
func withDefaults(text string) (string, environment, error) {
	var description struct {
		Environment []string `json:"environment"`
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(text), &members) != nil || json.Unmarshal([]byte(text), &description) != nil {
		return text, environment{}, nil // decode says what is wrong
	}
	env := newEnvironment(description.Environment)
	for option, name := range defaults {
		if _, given := members[option]; !given && env[name] != "" {
			members[option], _ = json.Marshal(env[name])
		}
	}
	if _, given := members["durable_kv_events"]; !given && strings.EqualFold(env["DYN_DURABLE_KV_EVENTS"], "true") {
		members["durable_kv_events"] = json.RawMessage("true")
	}
	all, err := json.Marshal(members)
	return string(all), env, err
}

// namespace returns where workers are by default.
func (e environment) namespace() string {
	name := e["DYN_NAMESPACE"]
	if name == "" {
		name = "dynamo"
	}
	if suffix := e["DYN_NAMESPACE_WORKER_SUFFIX"]; suffix != "" {
		name += "-" + suffix
	}
	return name
}

// limits returns the limits of requests of the process. Without one for the engine, those of the worker pool apply.
func (e environment) limits() (plane.Limits, error) {
	l := plane.StandardLimits
	read := func(name string, into *int, standard int) (err error) {
		*into, err = e.number(name, standard, 0, math.MaxInt32)
		return err
	}
	if e["DYN_ENGINE_REQUEST_LIMIT"] == "" {
		if err := read("DYN_TCP_WORKER_POOL_SIZE", &l.Active, l.Active); err != nil {
			return l, err
		}
		return l, read("DYN_TCP_WORK_QUEUE_SIZE", &l.Queued, l.Queued)
	}
	if err := read("DYN_ENGINE_REQUEST_LIMIT", &l.Active, 0); err != nil {
		return l, err
	}
	err := read("DYN_DYNAMO_REQUEST_QUEUE_LIMIT", &l.Queued, 16)
	l.Queued = max(l.Queued, 2) // as many as in the reference, whose dispatcher holds one beside the queue
	return l, err
}

// device returns the kind of hardware in discovery records.
func (e environment) device() string {
	if cuda, set := e["CUDA_VISIBLE_DEVICES"]; set &&
		slices.Contains([]string{"", "-1", "none", "void"}, strings.ToLower(strings.TrimSpace(cuda))) {
		return "cpu"
	}
	if slices.Contains([]string{"none", "void"}, strings.ToLower(strings.TrimSpace(e["NVIDIA_VISIBLE_DEVICES"]))) {
		return "cpu"
	}
	return "cuda"
}

// drainTimeout returns how long requests may take after the process was asked to end.
func (e environment) drainTimeout() (time.Duration, error) {
	seconds, err := e.number("DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS", 900, 0, math.MaxInt32)
	return time.Duration(seconds) * time.Second, err
}

// logging returns what DYN_LOG asks for: the first of its levels that is for no module in particular.
func (e environment) logging() logSpec {
	l := logSpec{level: slog.LevelInfo, json: e.truth("DYN_LOGGING_JSONL")}
	for word := range strings.SplitSeq(e["DYN_LOG"], ",") {
		switch strings.ToLower(strings.TrimSpace(word)) {
		case "trace", "debug":
			l.level = slog.LevelDebug
		case "info":
			l.level = slog.LevelInfo
		case "warn", "warning":
			l.level = slog.LevelWarn
		case "error", "off":
			l.level = slog.LevelError
		default:
			continue
		}
		break
	}
	return l
}
