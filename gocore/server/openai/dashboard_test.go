package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestDashboard: the state has what has happened since the last time it was asked for.
func TestDashboard(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Page = true })
	prompt := strings.Repeat("work ", 40)
	for range 2 {
		post(t, url+"/v1/completions", `{"prompt":"`+prompt+`","max_tokens":3}`)
	}
	post(t, url+"/v1/completions", `{}`)
	var state map[string]any
	eventually(t, "both requests are over", func() bool {
		state = get(t, url+"/dashboard/state").json(t)
		return state["answers"] == 2.0
	})
	if at(state, "models", 0, "name") != "m" || at(state, "workers", 0, "name") != "0" ||
		at(state, "workers", 0, "reused") != 192.0 || state["errors"] != 1.0 {
		t.Errorf("got %v", state)
	}
	if all := state["all_workers"].(map[string]any); all["number"] != 1.0 || all["looked_up"] != 402.0 ||
		all["reused"] != 192.0 || all["running"] != 0.0 {
		t.Errorf("got %v", all)
	}
	last := at(state, "requests", 1).(map[string]any)
	if at(last, "workers", 0) != "0" || last["prompt"] != 201.0 || last["cached"] != 192.0 || last["output"] != 3.0 ||
		last["outcome"] != "length" {
		t.Errorf("got %v", last)
	}
	if ttft, e2e := last["ttft_ms"].(float64), last["e2e_ms"].(float64); ttft <= 0 || e2e < ttft {
		t.Errorf("got a TTFT of %v ms, all after %v ms", ttft, e2e)
	}
	state = get(t, url+"/dashboard/state?after=1").json(t)
	if list := state["requests"].([]any); len(list) != 1 || state["last"] != 2.0 {
		t.Errorf("got %v", state)
	}
	if got := get(t, url+"/dashboard/state?after=x"); got.status != 400 {
		t.Errorf("got %d", got.status)
	}
}

// browse asks for a page as browsers do.
func browse(t *testing.T, url string) (header http.Header, text string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header, string(all)
}

// TestPage: browsers get a page that needs nothing from elsewhere, others a few words; so do all without the page.
func TestPage(t *testing.T) {
	_, url := start(t, fast, func(c *Config) { c.Page, c.Keys = true, []string{"k"} })
	header, page := browse(t, url+"/")
	if !strings.HasPrefix(header.Get("Content-Type"), "text/html") ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("got %v", header)
	}
	if len(page) > 100_000 || !strings.Contains(page, "dashboard/state") {
		t.Errorf("%d bytes", len(page))
	}
	page = strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "") // the name of a kind of elements
	for _, elsewhere := range []string{"http://", "https://", "@import", "<link rel=\"style", "src="} {
		if strings.Contains(page, elsewhere) {
			t.Errorf("the page has %s", elsewhere)
		}
	}
	if got := get(t, url+"/"); !strings.HasPrefix(got.text, "dynosim:") {
		t.Errorf("got %s", got.text)
	}
	if got := get(t, url+"/dashboard/state"); got.status != 401 {
		t.Errorf("the state without a key: got %d", got.status)
	}
	_, url = start(t, fast, nil)
	if _, text := browse(t, url+"/"); !strings.HasPrefix(text, "dynosim:") {
		t.Errorf("without a page: got %s", text)
	}
}

// TestBoardKeeps: the last requests are kept, no more.
func TestBoardKeeps(t *testing.T) {
	b := &board{}
	for i := range keptRequests + 3 {
		b.recent[b.last%keptRequests] = shownRequest{Prompt: i}
		b.last++
	}
	list, last := b.after(0)
	if len(list) != keptRequests || list[0].Prompt != 3 || list[keptRequests-1].Prompt != keptRequests+2 ||
		last != keptRequests+3 {
		t.Errorf("got %d, from %d to %d", len(list), list[0].Prompt, list[len(list)-1].Prompt)
	}
	if list, _ = b.after(last + 100); len(list) != 0 {
		t.Errorf("got %d", len(list))
	}
}
