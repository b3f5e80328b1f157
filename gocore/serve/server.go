package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dynosim/gocore/server/openai"
	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
)

// serverSpec describes a process with --standalone, an OpenAI-compatible server with engines of its own; without
// models, the HTTP side of any server.
type serverSpec struct {
	models        []servedModel
	ranks         int    // servers, one for each data-parallel rank, or 1
	host          string // to listen at
	version       string
	address       openai.Address
	keys          []string
	maxQueue      int
	maxBody       int64
	timeout       time.Duration
	faults        *openai.Faults
	cors          openai.CORS
	page          bool
	tokenizerInfo bool
	drain         time.Duration // how long requests may take after the process was asked to end
	log           logSpec
	warnings      []string
}

// role is what a process is.
type role int

const (
	workersRole  role = iota
	serverRole        // with engines of its own
	frontendRole      // a server before live workers
)

// roleOf returns what a description asks for.
func roleOf(text string) (role, error) {
	var d struct {
		Standalone bool `json:"standalone"`
		Frontend   bool `json:"frontend"`
	}
	switch err := json.Unmarshal([]byte(text), &d); {
	case err != nil:
		return workersRole, nil // decode says what is wrong
	case d.Standalone && d.Frontend:
		return workersRole, errors.New("standalone, frontend: a server has engines of its own or finds live workers, " +
			"not both")
	case d.Standalone:
		return serverRole, nil
	case d.Frontend:
		return frontendRole, nil
	}
	return workersRole, nil
}

// parseServer reads the description of a server.
func parseServer(text string) (*serverSpec, error) {
	o, err := decode(text)
	if err != nil {
		return nil, err
	}
	_, env, err := withDefaults(text)
	if err != nil {
		return nil, err
	}
	s := &serverSpec{warnings: unread(o, byServer, withServer)}
	if err := s.parseHTTP(o, env); err != nil {
		return nil, err
	}
	if s.models, err = parseModels(text, o, env); err != nil {
		return nil, err
	}
	for i := range s.models {
		s.models[i].eventsHost = strings.Trim(s.host, "[]")
		s.warnings = append(s.warnings, s.models[i].warnings...)
	}
	if err := s.parseRankPorts(o); err != nil {
		return nil, err
	}
	s.warnings = append(s.warnings, s.vainFaults()...)
	return s, nil
}

// vainFaults warns of faults of models that are not there yet. Adapters may be loaded later.
func (s *serverSpec) vainFaults() (warnings []string) {
	var names []string
	for i := range s.models {
		names = append(append(names, s.models[i].name), s.models[i].adapters...)
	}
	for _, name := range s.faults.Models() {
		if !slices.Contains(names, name) {
			warnings = append(warnings, fmt.Sprintf("inject_errors: model %q is not served until an adapter of this "+
				"name is loaded, %s", name, spelling.Offer(name, names)))
		}
	}
	return warnings
}

// parseHTTP reads what concerns HTTP alone.
func (s *serverSpec) parseHTTP(o *strictjson.Object, env environment) (err error) {
	s.log, s.maxQueue, s.maxBody = env.logging(), o.Int("max_queue"), int64(o.Int("max_body_bytes"))
	s.version = o.Text("version")
	s.page, s.tokenizerInfo = o.Bool("page"), o.Bool("enable_tokenizer_info_endpoint")
	s.timeout = time.Duration(o.Float("request_timeout") * 1e9)
	if s.drain, err = env.drainTimeout(); err != nil {
		return err
	}
	if err := s.parseAddress(o); err != nil {
		return err
	}
	if s.keys, err = parseKeys(o); err != nil {
		return err
	}
	if s.cors, err = parseCORS(o); err != nil {
		return err
	}
	if given := o.Text("inject_errors"); o.Given("inject_errors") {
		if s.faults, err = openai.ParseFaults(given, o.Uint("seed")); err != nil {
			return fmt.Errorf("inject_errors: %w", err)
		}
	}
	return nil
}

func (s *serverSpec) parseAddress(o *strictjson.Object) error {
	listen, err := listenHost(o)
	if err != nil {
		return err
	}
	s.host = cmp.Or(o.Text("http_host"), listen, loopback)
	s.address = openai.Address{
		Listen:      net.JoinHostPort(strings.Trim(s.host, "[]"), strconv.Itoa(o.Int("http_port"))),
		Certificate: o.Text("tls_cert"), Key: o.Text("tls_key"), SelfSigned: o.Bool("tls_self_signed"),
		MaxConnections: o.Int("max_connections"),
	}
	if o.Given("tls_cert") != o.Given("tls_key") {
		return fmt.Errorf("tls_cert, tls_key: got one of them, want both or none")
	}
	if o.Given("tls_cert") && s.address.SelfSigned {
		return fmt.Errorf("tls_self_signed: got tls_cert too, want one of them")
	}
	for _, name := range []string{"tls_cert", "tls_key"} {
		if o.Given(name) {
			if _, err := os.Stat(o.Text(name)); err != nil {
				return unreadable(name, o.Text(name), err)
			}
		}
	}
	return nil
}

// parseKeys collects the keys of clients.
func parseKeys(o *strictjson.Object) ([]string, error) {
	keys := words(o.Text("api_key"))
	if path := o.Text("api_key_file"); path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, unreadable("api_key_file", path, err)
		}
		if !utf8.Valid(content) {
			return nil, fmt.Errorf("api_key_file: %q is no UTF-8 text, want a key in each line", path)
		}
		for line := range strings.Lines(string(content)) {
			if key := strings.TrimSpace(line); key != "" && !strings.HasPrefix(key, "#") {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 && (o.Given("api_key") || o.Given("api_key_file")) {
		return nil, fmt.Errorf("api_key, api_key_file: got no key, want at least one")
	}
	return keys, nil
}

// parseCORS reads what pages of other origins may do.
func parseCORS(o *strictjson.Object) (c openai.CORS, err error) {
	c.Credentials = o.Bool("allow_credentials")
	for _, list := range []struct {
		name string
		into *[]string
	}{{"allowed_origins", &c.Origins}, {"allowed_methods", &c.Methods}, {"allowed_headers", &c.Headers}} {
		name, into := list.name, list.into
		text := strings.TrimSpace(o.Text(name))
		*into = words(text)
		if strings.HasPrefix(text, "[") {
			*into = nil
			err = errors.Join(err, json.Unmarshal([]byte(text), into))
		}
		if err != nil || len(*into) == 0 || slices.Contains(*into, "") {
			return c, fmt.Errorf("%s: got %q, want words with commas or a JSON list of strings, such as *", name, text)
		}
	}
	return c, nil
}

// words returns the items of a list with commas.
func words(text string) (list []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// runServer serves until stop.
func runServer(text string, stop *Stop, ask Ask) error {
	spec, err := parseServer(text)
	if err != nil {
		return err
	}
	log := spec.log.open()
	loaded, err := spec.load(stop, ask, log)
	switch {
	case errors.Is(err, errStopped):
		return nil
	case err != nil:
		return err
	}
	defer loaded.close()
	for _, w := range append(spec.warnings, loaded.warnings...) {
		log.Warn(w)
	}
	return spec.serve(loaded, ask, log, stop)
}

// url returns the URL at which clients find a server.
func (s *serverSpec) url(at net.Addr) string {
	scheme := "http"
	if s.address.TLS() {
		scheme = "https"
	}
	return scheme + "://" + at.String()
}

// names returns the models that are served from the beginning.
func (s *serverSpec) names() (names []string) {
	for i := range s.models {
		names = append(names, s.models[i].name)
	}
	return names
}

// try returns a line for a shell that asks the first model something; of a server before live workers, which models
// there are.
func (s *serverSpec) try(at net.Addr) string {
	host, port, _ := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() { // an address to listen at, not one to connect to
		host = "localhost"
	}
	scheme, _, _ := strings.Cut(s.url(at), ":")
	line := "curl " + scheme + "://" + net.JoinHostPort(host, port) + "/v1/"
	if s.address.TLS() {
		line = strings.Replace(line, "curl", "curl --insecure", 1)
	}
	if len(s.keys) > 0 { // which are secrets
		line = strings.Replace(line, "curl", `curl -H "Authorization: Bearer $KEY"`, 1)
	}
	if len(s.models) == 0 {
		return line + "models"
	}
	body, _ := json.Marshal(map[string]any{
		"model": s.models[0].name, "max_tokens": 20,
		"messages": []map[string]string{{"role": "user", "content": "Hello"}},
	})
	return line + "chat/completions -H 'Content-Type: application/json' -d '" +
		strings.ReplaceAll(string(body), "'", `'\''`) + "'"
}
