package openai

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCORS: browsers hear what pages of other origins may do, before a request and with its answer.
func TestCORS(t *testing.T) {
	all := &CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}}
	some := &CORS{Origins: []string{"http://a"}, Methods: []string{"POST"}, Headers: []string{"Authorization"},
		Credentials: true}
	for _, c := range []struct {
		name    string
		cors    *CORS
		method  string
		headers map[string]string
		status  int
		want    map[string]string // headers of the answer, "" for none
	}{
		{"no origin", all, "GET", nil, 200, map[string]string{"Access-Control-Allow-Origin": "", "Vary": ""}},
		{"off", nil, "GET", map[string]string{"Origin": "http://a"}, 200,
			map[string]string{"Access-Control-Allow-Origin": ""}},
		{"any origin", all, "GET", map[string]string{"Origin": "http://a"}, 200,
			map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": ""}},
		{"one of some", some, "GET", map[string]string{"Origin": "http://a"}, 200,
			map[string]string{"Access-Control-Allow-Origin": "http://a", "Vary": "Origin",
				"Access-Control-Allow-Credentials": "true"}},
		{"another", some, "GET", map[string]string{"Origin": "http://b"}, 200,
			map[string]string{"Access-Control-Allow-Origin": ""}},
		{
			"any with cookies", &CORS{Origins: []string{"*"}, Credentials: true}, "GET",
			map[string]string{"Origin": "http://a", "Cookie": "x=1"}, 200,
			map[string]string{"Access-Control-Allow-Origin": "http://a", "Vary": "Origin"},
		},
		{
			"question", all, "OPTIONS", map[string]string{"Origin": "http://a", "Access-Control-Request-Method": "POST",
				"Access-Control-Request-Headers": "authorization,x-stainless-os"}, 200,
			map[string]string{
				"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "authorization,x-stainless-os",
				"Access-Control-Max-Age":       "600",
				"Access-Control-Allow-Methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
			},
		},
		{
			"allowed question", some, "OPTIONS", map[string]string{"Origin": "http://a",
				"Access-Control-Request-Method":  "POST",
				"Access-Control-Request-Headers": "authorization, content-type"}, 200,
			map[string]string{"Access-Control-Allow-Methods": "POST"},
		},
		{"other method", some, "OPTIONS",
			map[string]string{"Origin": "http://a", "Access-Control-Request-Method": "GET"}, 400, nil},
		{"other header", some, "OPTIONS", map[string]string{"Origin": "http://a",
			"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}, 400, nil},
		{"other origin", some, "OPTIONS", map[string]string{"Origin": "http://b",
			"Access-Control-Request-Method": "POST"}, 400, map[string]string{"Access-Control-Allow-Origin": ""}},
		{"no question", all, "OPTIONS", map[string]string{"Origin": "http://a"}, 405,
			map[string]string{"Access-Control-Allow-Origin": "*"}},
	} {
		s := serverOf(t, fast, func(config *Config) { config.CORS = c.cors })
		r := httptest.NewRequest(c.method, "/v1/models", http.NoBody)
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: got %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
		for name, want := range c.want {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
			}
		}
	}
}
