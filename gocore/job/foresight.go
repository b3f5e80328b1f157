package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/job/memory"
	"dynosim/gocore/report"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// Foresight is what is known of runs before they begin.
type Foresight struct {
	Room *int64   `json:"room_bytes"` // memory that runs may take together, null if nothing bounds it
	Keys []string `json:"keys"`       // of the reports, those of goodput and cost included
	Runs []Facts  `json:"runs"`
}

// Facts are what is known of one run. If Error is not "", the run would be refused and the rest is empty.
type Facts struct {
	Error string `json:"error,omitempty"`
	// Identity is the SHA-256 of the arguments after defaults and of the bytes of all input files. Two runs with the
	// same identity write the same report, unless the core or the AIC SDK has changed.
	Identity string `json:"identity"`
	// Arguments are those of the run after defaults, as in the provenance of its report.
	Arguments map[string]any `json:"arguments"`
	Inputs    []inputFile    `json:"inputs"`
	AIC       bool           `json:"aic"` // the run asks the AIC SDK

	PrefillGPUs int `json:"prefill_gpus"` // 0 with one pool
	DecodeGPUs  int `json:"decode_gpus"`  // those of the one pool, or of decode workers
	// Misfit says which request can never run because a KV pool is too small for its prompt, "" if none is known.
	Misfit string `json:"misfit"`
	Needed int64  `json:"needed_bytes"` // memory that the run needs at the least
	// ArrivalRPS is how many requests arrive per second with arrival_speedup_ratio 1, null if that is not known.
	ArrivalRPS *float64 `json:"arrival_rps"`
	Requests   int      `json:"requests"`
	// Drawn reports whether the workload, or how long workers take to start, depends on the seed.
	Drawn bool `json:"drawn"`
}

// Foresee says what is known of runs before they begin, as the JSON text of a [Foresight]. config is a JSON object
// whose "runs" are descriptions of runs, see [Parse]. Those of a trace use the one of the Monitor, if it has one.
// Nothing is simulated, and the AIC SDK is not asked.
func Foresee(config string, m *Monitor) (string, error) {
	var given struct {
		Runs []json.RawMessage `json:"runs"`
	}
	if err := json.Unmarshal([]byte(config), &given); err != nil {
		return "", &strictjson.FieldError{Field: "runs", Got: "something else", Want: "a list of descriptions of runs"}
	}
	found := Foresight{Keys: reportKeys(), Runs: make([]Facts, len(given.Runs))}
	if room := memory.Free(); room.Bytes < memory.Unbounded {
		found.Room = &room.Usable
	}
	hashes := map[string]string{}
	for i, run := range given.Runs {
		if err := m.poll(); err != nil {
			return "", err
		}
		facts, err := foresee(string(run), m, hashes)
		if err != nil {
			facts = Facts{Error: err.Error()}
		}
		found.Runs[i] = facts
	}
	text, err := json.Marshal(found)
	return string(text), err
}

// reportKeys returns all keys that a report may have.
func reportKeys() []string {
	keys := []string{}
	for _, value := range report.NewCollector(0, 1).Summarise(report.Resources{GPUHourPrice: 1}, report.SLA{}) {
		keys = append(keys, value.Key)
	}
	return append(keys, faultKeys...)
}

// foresee looks at one run. hashes are those of files that an earlier run of the same call has read.
func foresee(config string, m *Monitor, hashes map[string]string) (Facts, error) {
	s, err := Parse(config)
	if err != nil {
		return Facts{}, err
	}
	if s.online {
		return Facts{}, &strictjson.FieldError{Field: "replay_mode", Got: onlineMode, Want: offlineMode}
	}
	d := s.deployment
	facts := Facts{
		AIC: s.routing.session.Backend != "" ||
			d.anyPool(func(a engineargs.Args) bool { return a.AIC.Backend != "" }),
		DecodeGPUs: d.workers * d.args.GPUsPerWorker,
		Drawn: d.drawsStartUps() || s.synthetic && (s.generated.Draws() || s.generated.Arrivals.Draws()) ||
			s.drawsFaults(),
	}
	if d.disaggregated {
		facts.PrefillGPUs = d.prefillWorkers * d.prefill.GPUsPerWorker
	}
	if facts.Inputs, err = listInputs(s, func(file inputFile) (string, error) {
		if known, ok := hashes[file.Path]; ok {
			return known, nil
		}
		hash, err := m.hash(file)
		if err == nil {
			hashes[file.Path] = hash
		}
		return hash, err
	}); err != nil {
		return Facts{}, err
	}
	if err := readCurve(s.generated.Arrivals.Curve); err != nil {
		return Facts{}, err
	}
	facts.Identity, facts.Arguments = identity(s.origin, facts.Inputs), s.origin.Arguments
	facts.describeWorkload(s, m.Trace)
	return facts, nil
}

// identity hashes what decides the report of a run. Files count by their bytes and not by their names.
func identity(origin provenance, inputs []inputFile) string {
	arguments := maps.Clone(origin.Arguments)
	delete(arguments, "trace_files")
	delete(arguments, "router_decisions")
	hashes := make([][2]string, len(inputs))
	for i, file := range inputs {
		hashes[i] = [2]string{file.Argument, file.SHA256}
	}
	text, err := json.Marshal([]any{origin.Function, arguments, hashes})
	if err != nil {
		panic("job: the arguments of a run do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// describeWorkload fills in what is known of the requests, and whether the pools can hold them.
func (f *Facts) describeWorkload(s *Spec, trace *Trace) {
	d := s.deployment
	each, longest := float64(requestBytes), 0
	switch {
	case s.synthetic:
		f.Requests = sessionsOf(s.generated) * max(1, s.generated.TurnsPerSession)
		if _, fromFile := s.generated.InputLengths.File(); !fromFile {
			longest = s.generated.InputLengths.Min()
		}
		f.ArrivalRPS = arrivalRate(s)
	case trace != nil:
		f.Requests, longest = trace.requests, trace.longest
		each /= 2 // the rest has been taken when the trace was loaded
		if rate := trace.arrivalRPS; rate > 0 && s.concurrency == 0 && s.lanes == 0 {
			f.ArrivalRPS = &rate
		}
	}
	f.Needed = int64(float64(f.Requests)*each + float64(longest/d.args.BlockSize)*blockBytes)
	for _, name := range []string{"extra_engine_args", "prefill_engine_args", "decode_engine_args"} {
		args, used := d.pools()[name]
		if !used || args.Capacity != (aic.Capacity{}) { // the SDK sizes the pool when the run begins
			continue
		}
		if pool := args.NumGPUBlocks * args.BlockSize; longest > pool {
			f.Misfit = fmt.Sprintf("%s: a prompt of %d tokens is larger than the KV pool, %d blocks of %d tokens",
				name, longest, args.NumGPUBlocks, args.BlockSize)
			return
		}
	}
}

// sessionsOf returns how many sessions a generated workload has, or how many are to be expected if only its curve says
// that.
func sessionsOf(spec workload.SyntheticSpec) int {
	if spec.RequestCount == 0 && spec.Arrivals.Curve != nil {
		return spec.Arrivals.Curve.Expected()
	}
	return spec.RequestCount
}

// arrivalRate returns that of a generated workload, nil if requests do not arrive by the clock.
func arrivalRate(s *Spec) *float64 {
	rate := s.generated.Arrivals.RequestRate
	if curve := s.generated.Arrivals.Curve; curve != nil {
		rate = curve.MeanRPS()
	}
	if rate == 0 {
		rate = 1000 / s.generated.ArrivalIntervalMs
	}
	rate *= float64(max(1, s.generated.TurnsPerSession))
	if s.concurrency > 0 || math.IsInf(rate, 0) {
		return nil
	}
	return &rate
}
