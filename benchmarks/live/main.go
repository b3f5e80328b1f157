// Command live puts load on live workers, as a frontend would, and reports as JSON what it saw. It finds them in a
// folder of file discovery, spreads streams over them, and replaces each stream that ends by another one until the time
// is over.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/store"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
)

func main() {
	root := flag.String("discovery", "", "folder of file discovery")
	workers := flag.Int("workers", 1, "how many to wait for")
	streams := flag.Int("streams", 1000, "at the same time")
	prompt := flag.Int("prompt", 128, "tokens of a prompt")
	output := flag.Int("output", 200, "tokens of an answer")
	duration := flag.Duration("duration", 10*time.Second, "of the measurement, after as long a warm-up")
	flag.Parse()
	if err := run(*root, *workers, *streams, *prompt, uint32(*output), *duration); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// target is one worker.
type target struct{ address, path string }

// seen is what one stream, and those that replaced it, have measured, in milliseconds.
type seen struct{ firstToken, gaps []float64 }

func run(root string, workers, streams, prompt int, output uint32, duration time.Duration) error {
	targets, err := find(root, workers)
	if err != nil {
		return err
	}
	caller, err := plane.ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		return err
	}
	defer caller.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*duration)
	defer cancel()
	from := time.Now().Add(duration)
	results := make([]seen, streams)
	errs := make(chan error, streams)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			time.Sleep(time.Duration(rng.Float64() * float64(duration) / 2)) // not all at once
			for ctx.Err() == nil {
				if err := stream(ctx, caller, targets[i%len(targets)], prompt, output, rng, from,
					&results[i]); err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	return report(results, duration)
}

func find(root string, workers int) ([]target, error) {
	records, err := store.OpenFile(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = records.Close() }()
	for range 600 {
		instances, err := records.List(discovery.Instances)
		if err != nil {
			return nil, err
		}
		var targets []target
		for _, r := range instances {
			var document struct {
				Endpoint  string            `json:"endpoint"`
				Transport map[string]string `json:"transport"`
			}
			if json.Unmarshal(r.Document, &document) == nil && document.Endpoint == "generate" {
				if address, path, ok := strings.Cut(document.Transport["tcp"], "/"); ok {
					targets = append(targets, target{address, path})
				}
			}
		}
		if len(targets) == workers {
			return targets, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("there are no %d workers in %s", workers, root)
}

// stream makes one request and times its tokens.
func stream(ctx context.Context, caller *plane.Caller, to target, prompt int, output uint32, rng *rand.Rand,
	from time.Time, s *seen) error {
	request := wire.Request{TokenIDs: make([]uint32, prompt), StopConditions: wire.StopConditions{MaxTokens: &output}}
	for i := range request.TokenIDs {
		request.TokenIDs[i] = rng.Uint32N(2000)
	}
	body, err := wire.EncodeRequest(wire.JSON, request)
	if err != nil {
		return err
	}
	began := time.Now()
	answer, err := caller.Send(ctx, to.address, to.path,
		plane.Outgoing{ID: uuid.NewString(), Codec: wire.JSON, Body: body})
	if err != nil {
		return err
	}
	defer answer.Close()
	last := time.Time{}
	for ctx.Err() == nil {
		body, err := answer.Body()
		if err != nil {
			return nil // the end
		}
		if !strings.Contains(string(body), `"token_ids":[`) || strings.Contains(string(body), `"token_ids":[]`) {
			continue
		}
		now := time.Now()
		if now.After(from) {
			if last.IsZero() {
				s.firstToken = append(s.firstToken, float64(now.Sub(began))/1e6)
			} else {
				s.gaps = append(s.gaps, float64(now.Sub(last))/1e6)
			}
		}
		last = now
	}
	return nil
}

func report(results []seen, duration time.Duration) error {
	var first, gaps []float64
	for _, r := range results {
		first, gaps = append(first, r.firstToken...), append(gaps, r.gaps...)
	}
	slices.Sort(first)
	slices.Sort(gaps)
	at := func(sorted []float64, q float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		return sorted[int(q*float64(len(sorted)-1))]
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"tokens_per_s": float64(len(first)+len(gaps)) / duration.Seconds(),
		"ttft_p50_ms":  at(first, .5), "ttft_p99_ms": at(first, .99),
		"itl_p50_ms": at(gaps, .5), "itl_p99_ms": at(gaps, .99), "itl_max_ms": at(gaps, 1),
	})
}
