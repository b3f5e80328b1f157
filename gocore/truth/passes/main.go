// Passes replays cases (package truth) by an engine's own rules and prints what became of their requests and how their
// passes looked, one JSON object a line: what the drivers in tests/truth print of the engines themselves.
//
//	go run ./gocore/truth/passes vllm-0.28 CASES.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"dynosim/gocore/truth"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: passes SCHEDULER CASES.jsonl")
		os.Exit(2)
	}
	if err := replayAll(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func replayAll(scheduler, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in, out := json.NewDecoder(bufio.NewReader(file)), json.NewEncoder(os.Stdout)
	for {
		var c anyCase
		if err := in.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(replayed(scheduler, &c)); err != nil {
			return err
		}
	}
}

// anyCase is a case of one worker, or of prefill and decode workers.
type anyCase struct {
	truth.Case
	handoff *truth.HandoffCase
	sglang  *truth.SGLangHandoffCase
}

// UnmarshalJSON tells them by their engine arguments.
func (c *anyCase) UnmarshalJSON(text []byte) error {
	var handoff truth.HandoffCase
	if err := json.Unmarshal(text, &handoff); err != nil || handoff.Prefill == nil {
		return json.Unmarshal(text, &c.Case)
	}
	if c.ID = handoff.ID; handoff.Prefill["engine_type"] != "sglang" {
		c.handoff = &handoff
		return nil
	}
	c.sglang = &truth.SGLangHandoffCase{}
	return json.Unmarshal(text, c.sglang)
}

// replayed returns the result of a case, or why there is none.
func replayed(scheduler string, c *anyCase) any {
	var result any
	var err error
	switch {
	case c.handoff != nil:
		result, err = c.handoff.Run(scheduler)
	case c.sglang != nil:
		result, err = c.sglang.Run(scheduler)
	default:
		args, failed := c.Case.Args(map[string]any{"scheduler": scheduler})
		if err = failed; err == nil {
			result, err = truth.Run(&c.Case, args)
		}
	}
	if err != nil {
		return map[string]string{"id": c.ID, "error": err.Error()}
	}
	return result
}
