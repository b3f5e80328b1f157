// Command serve is a client that puts load on an OpenAI-compatible server: clients that each ask again as soon as they
// have their answer, all of them streamed. It prints one JSON object about what it has seen.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is what the clients do.
type load struct {
	url, model    string
	clients       int
	words, tokens int     // of a prompt, of an answer
	leaving       float64 // fraction of the requests that are given up after some tokens
	structured    float64 // fraction of the requests whose answers have to conform to a JSON Schema
	first         atomic.Int64
	http          *http.Client
}

// seen is what one client has seen.
type seen struct {
	requests, failures, left, events int
	ttft, gaps                       []float64 // ms
	failure                          string
}

func main() {
	l := &load{}
	flag.StringVar(&l.url, "url", "", "where the server is")
	flag.StringVar(&l.model, "model", "", "name of the model")
	flag.IntVar(&l.clients, "clients", 64, "clients at the same time")
	flag.IntVar(&l.words, "words", 100, "words of a prompt")
	flag.IntVar(&l.tokens, "tokens", 50, "tokens of an answer")
	flag.Float64Var(&l.leaving, "leaving", 0, "fraction of the requests that are given up after their first token")
	flag.Float64Var(&l.structured, "structured", 0,
		"fraction of the requests whose answers have to conform to a JSON Schema")
	duration := flag.Duration("duration", 10*time.Second, "how long")
	flag.Parse()
	l.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.clients, MaxConnsPerHost: l.clients}}
	ctx, cancel := context.WithTimeout(context.Background(), *duration)
	defer cancel()
	all := make([]seen, l.clients)
	began := time.Now()
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { l.run(ctx, uint64(i), &all[i]) })
	}
	wait.Wait()
	report(all, time.Since(began), int(l.first.Load()))
}

// run asks until the end.
func (l *load) run(ctx context.Context, client uint64, s *seen) {
	rng := rand.New(rand.NewPCG(client, 1))
	for ctx.Err() == nil {
		err := l.ask(ctx, rng, s)
		if err != nil && ctx.Err() == nil {
			s.failures++
			s.failure = err.Error()
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (l *load) body(rng *rand.Rand) []byte {
	var prompt strings.Builder
	for range l.words {
		fmt.Fprintf(&prompt, "tok%d ", 100+rng.IntN(1900))
	}
	body := map[string]any{
		"model": l.model, "stream": true, "max_tokens": l.tokens, "ignore_eos": true,
		"messages": []any{map[string]any{"role": "user", "content": prompt.String()}},
	}
	if rng.Float64() < l.structured {
		body["response_format"] = json.RawMessage(citySchema)
	}
	text, _ := json.Marshal(body)
	return text
}

// citySchema is what structured answers conform to.
const citySchema = `{"type": "json_schema", "json_schema": {"name": "city", "schema": {
	"type": "object", "required": ["name", "people", "tags"], "properties": {"name": {"type": "string"},
	"people": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}}}}}`

// ask makes one request and reads its answer.
func (l *load) ask(ctx context.Context, rng *rand.Rand, s *seen) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/chat/completions",
		bytes.NewReader(l.body(rng)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	leaves := rng.Float64() < l.leaving
	last := time.Now()
	answer, err := l.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	lines := bufio.NewScanner(answer.Body)
	for events := 0; lines.Scan(); {
		text, found := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !found:
			continue
		case text == "[DONE]":
			s.requests++
			continue // to the end of the body, so that the connection can be used again
		}
		now := time.Now()
		if ms := float64(now.Sub(last)) / 1e6; events == 0 {
			l.first.Add(1)
			s.ttft = append(s.ttft, ms)
		} else {
			s.gaps = append(s.gaps, ms)
		}
		last = now
		events++
		s.events++
		if leaves {
			s.left++
			return nil
		}
	}
	return lines.Err()
}

func report(all []seen, took time.Duration, first int) {
	var sum seen
	for i := range all {
		s := &all[i]
		sum.requests += s.requests
		sum.failures += s.failures
		sum.left += s.left
		sum.events += s.events
		sum.ttft = append(sum.ttft, s.ttft...)
		sum.gaps = append(sum.gaps, s.gaps...)
		if s.failure != "" {
			sum.failure = s.failure
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"seconds": took.Seconds(), "requests": sum.requests, "begun": first, "failures": sum.failures, "left": sum.left,
		"events_per_s": float64(sum.events) / took.Seconds(), "failure": sum.failure,
		"ttft_p50_ms": percentile(sum.ttft, 0.5), "ttft_p99_ms": percentile(sum.ttft, 0.99),
		"itl_p50_ms": percentile(sum.gaps, 0.5), "itl_p99_ms": percentile(sum.gaps, 0.99),
	})
}

func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(p*float64(len(values))))]
}
