package serve

import (
	"fmt"
	"math"
	"os"
	"slices"

	"dynosim/gocore/deploy"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/live"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/timing"
)

// inputs are what a Spec asks for, loaded: the model, recorded answers, durations of passes, and the addresses of this
// machine.
type inputs struct {
	addresses addresses
	card      card.Card
	recorded  map[string][]uint32 // answers to repeat
	args      engineargs.Args     // with what the AIC SDK and the model say
	timing    timing.Model        // nil for the polynomial
	predict   live.Predictor      // instead, by the AIC SDK
	predictor string              // its name
	warnings  []string            // of predictions and of the model
}

// load finds the addresses of this machine, reads files, and asks the AIC SDK what is needed before workers start.
func load(s *Spec, stop *Stop, ask Ask) (*inputs, error) {
	in := &inputs{addresses: s.planes.addresses.find(), args: s.args}
	if err := in.loadRecorded(); err != nil {
		return nil, err
	}
	if err := in.loadTiming(stop, ask); err != nil {
		return nil, err
	}
	return in, in.loadModel(s.model)
}

func (in *inputs) loadRecorded() error {
	path := in.args.Live.ResponseReplay
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("response_replay_trace_path: %w", err)
	}
	defer func() { _ = f.Close() }()
	if in.recorded, err = live.ReadRecorded(f); err != nil {
		return fmt.Errorf("response_replay_trace_path: %s: %w", path, err)
	}
	return nil
}

// loadProfile takes the timing model that the engine arguments in option describe, or reads measured durations that
// they name.
func (in *inputs) loadProfile(option string) (err error) {
	in.timing, err = deploy.Model(option, in.args)
	return err
}

// loadModel makes the model card. If no size of transfers is given, it follows from the model.
func (in *inputs) loadModel(m modelSpec) error {
	folder, err := card.FindModel(m.path, m.cache)
	if err != nil {
		return fmt.Errorf("model_path: %w", err)
	}
	kvEvents := in.args.PrefixCaching && in.args.Role != engine.Decode
	model := card.Model{
		Folder: folder, DisplayName: m.name, BlockSize: in.args.BlockSize, TotalKVBlocks: in.args.NumGPUBlocks,
		MaxNumSeqs:          orStandard(in.args.MaxNumSeqs, 256),
		MaxNumBatchedTokens: orStandard(in.args.MaxNumBatchedTokens, 8192),
		Ranks:               in.args.Live.Ranks, WorkerType: card.WorkerType(in.args.Role.String()),
		LocalIndexer: in.args.Live.LocalIndexer && kvEvents, KVEvents: kvEvents,
	}
	if card.IsFolder(m.path) {
		if m.release != "1.3" {
			model.Source = m.path
		}
	} else {
		model.Hub = m.path
	}
	in.card, err = card.New(model)
	if err != nil {
		return fmt.Errorf("model_path: %w", err)
	}
	if m.kvType == "" {
		return nil
	}
	if in.args.Transfer.BytesPerToken, err = card.KVBytesPerToken(folder, m.kvType); err != nil {
		in.warnings = append(in.warnings, fmt.Sprintf("kv_bytes_per_token: %v; transfers take no time", err))
	}
	return nil
}

// orStandard returns what a card says about a limit: a number even if there is none.
func orStandard(n, standard int) int {
	if n == math.MaxInt {
		return standard
	}
	return n
}

// check returns the warnings of a process that is about to start.
func (s *Spec) check(in *inputs) []string {
	return slices.Concat(s.warnings, in.addresses.warnings, s.planes.warnings, in.warnings)
}
