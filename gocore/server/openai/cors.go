package openai

import (
	"net/http"
	"slices"
	"strings"
)

// CORS says which pages of other origins a browser lets call the server. "*" stands for all.
type CORS struct {
	Origins, Methods, Headers []string
	// Credentials allows cookies and the like.
	Credentials bool
}

// safeHeaders may always be sent.
var safeHeaders = []string{"Accept", "Accept-Language", "Content-Language", "Content-Type"}

// allMethods are what "*" stands for.
var allMethods = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

const anything = "*"

// originAllowed reports whether pages of an origin may call.
func (c *CORS) originAllowed(origin string) bool {
	return slices.Contains(c.Origins, anything) || slices.Contains(c.Origins, origin)
}

// answer puts what a browser wants to know into the header of an answer. It reports whether the request is only a
// question of a browser before another one, which it then has answered.
func (c *CORS) answer(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if c == nil || origin == "" {
		return false
	}
	h := w.Header()
	allowed := c.originAllowed(origin)
	switch {
	case slices.Contains(c.Origins, anything) && !(c.Credentials && r.Header.Get("Cookie") != ""):
		h.Set("Access-Control-Allow-Origin", anything)
	case allowed:
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
	}
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	method := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || method == "" {
		return false
	}
	c.preflight(w, r, allowed, method)
	return true
}

// preflight answers the question whether a request would be allowed.
func (c *CORS) preflight(w http.ResponseWriter, r *http.Request, allowed bool, method string) {
	var wrong []string
	if !allowed {
		wrong = append(wrong, "origin")
	}
	methods := c.Methods
	if slices.Contains(methods, anything) {
		methods = allMethods
	}
	if !slices.Contains(methods, method) {
		wrong = append(wrong, "method")
	}
	wanted := r.Header.Get("Access-Control-Request-Headers")
	headers := wanted
	if !slices.Contains(c.Headers, anything) {
		list := slices.Concat(safeHeaders, c.Headers)
		headers = strings.Join(list, ", ")
		for name := range strings.SplitSeq(wanted, ",") {
			if name = strings.TrimSpace(name); name != "" &&
				!slices.ContainsFunc(list, func(known string) bool { return strings.EqualFold(known, name) }) {
				wrong = append(wrong, "headers")
				break
			}
		}
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Max-Age", "600")
	if headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Add("Vary", "Origin")
	status, text := http.StatusOK, "OK"
	if len(wrong) > 0 {
		status, text = http.StatusBadRequest, "Disallowed CORS "+strings.Join(wrong, ", ")
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
