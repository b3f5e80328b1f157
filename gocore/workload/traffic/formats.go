package traffic

import (
	"bytes"
	"regexp"
	"strings"
)

// Format is a kind of file.
type Format struct {
	Name    string
	Aliases []string
	Several bool // a trace may consist of several files
	Draws   bool // what a file does not say is drawn from Options.Seed
	Content bool // requests have block ids

	read  func(c *collector, sources []Source) error
	looks *regexp.Regexp // matches the beginning of a file
}

// Formats lists all of them. A format that looks like another one comes first.
var Formats = []Format{
	{Name: "azure", read: readAzure, looks: regexp.MustCompile(`(?i)^[^\n]*\bContextTokens\b`)},
	{Name: "burstgpt", read: readBurstGPT, looks: regexp.MustCompile(`(?i)^[^\n]*\bRequest tokens\b`)},
	{Name: "splitwise", Aliases: []string{"vidur"}, read: readSplitwise,
		looks: regexp.MustCompile(`(?i)^[^\n]*\bnum_prefill_tokens\b`)},
	{Name: "servegen", Several: true, Draws: true, read: readServeGen,
		looks: regexp.MustCompile(`^\d+(,[\d.]+){2},(Gamma|Weibull|),|^\s*\{\s*"\d+":\s*\{\s*"(input|text)_tokens"`)},
	{Name: "weka", Several: true, Content: true, read: readWeka,
		looks: regexp.MustCompile(`^\s*\[?\s*\{.*"(hash_id_scope|tool_tokens)"`)},
	{Name: "bailian", Content: true, read: readBailian, looks: regexp.MustCompile(`"chat_id"`)},
	{Name: "llmservingsim", read: readLLMServingSim, looks: regexp.MustCompile(`"input_toks"[^\n]*"arrival_time":`)},
	{Name: "sharegpt", read: readShareGPT, looks: regexp.MustCompile(`"input_toks"|"conversations"`)},
	{Name: "aiperf", read: readAIPerf, looks: regexp.MustCompile(`"request_start_ns"`)},
	{Name: "sglang-bench", Draws: true, read: readBench, looks: regexp.MustCompile(`"dataset_name"`)},
	{Name: "vllm-bench", Draws: true, read: readBench, looks: regexp.MustCompile(`"num_prompts"|"input_lens"`)},
	{Name: "guidellm", read: readGuideLLM, looks: regexp.MustCompile(`"guidellm_version"|"benchmarks"\s*:`)},
}

// Read reads files of a format.
func (f *Format) Read(sources []Source, o Options) (*Trace, error) {
	names := make([]string, len(sources))
	for i, source := range sources {
		names[i] = source.Name
	}
	c := newCollector(strings.Join(names, ", "), o)
	if err := f.read(c, sources); err != nil {
		return nil, err
	}
	return c.finish()
}

// Guess returns the name of the format that a file looks like by its beginning, "" if it looks like none.
func Guess(head []byte) string {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	for i := range Formats {
		if Formats[i].looks.Match(head) {
			return Formats[i].Name
		}
	}
	return ""
}
