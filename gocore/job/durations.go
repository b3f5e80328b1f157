package job

import (
	"path/filepath"
	"slices"

	"dynosim/gocore/calibration"
	"dynosim/gocore/engineargs"
)

// durations say what the durations of a pool's passes are of.
type durations struct {
	Pool        string `json:"pool"` // "worker", "prefill" or "decode"
	TimingModel string `json:"timing_model"`
	Engine      string `json:"engine"`
	Scheduler   string `json:"scheduler"`
	// The AIC SDK: what it predicts for, of which release of the engine, and its own release.
	System         string `json:"system,omitempty"`
	Model          string `json:"model,omitempty"`
	Precision      string `json:"precision,omitempty"`
	Backend        string `json:"backend,omitempty"`
	BackendVersion string `json:"backend_version,omitempty"`
	Release        string `json:"aic_release,omitempty"`
	// Profile is the file or folder with measured durations, without the folders that it is in: they differ between
	// machines that share a sweep.
	Profile string `json:"profile,omitempty"`
	// Experts says, of ranks in lockstep, for whose tokens a pass computes expert layers: "all_ranks", or
	// "slowest_rank" if the timing model cannot tell those layers apart.
	Experts string `json:"experts,omitempty"`
	// by what prefill and decode parts are divided; not if by nothing
	Speedup     []float64          `json:"speedup,omitempty"`
	Knobs       bool               `json:"knobs,omitempty"` // some are set that no calibration has set
	Calibration *usedCalibration   `json:"calibration,omitempty"`
	Error       *calibration.Error `json:"measured_error,omitempty"`
	// Expected is where 80 % of measurements of such a deployment are to be expected, or of its nearest kin that was
	// measured.
	Expected *calibration.Expected `json:"expected,omitempty"`
	// Link is between prefill workers and decode workers.
	Link *link `json:"hand_offs,omitempty"`
}

// usedCalibration is the entry of a profile that an engine uses.
type usedCalibration struct {
	Profile      string `json:"profile"`
	Level        string `json:"level"`
	Measurements int    `json:"measurements"`
	// Precision is what the model was measured in, if it runs in another one or nothing says in which.
	Precision string `json:"measured_in,omitempty"`
	// Kernels are the engine arguments that say of which other kernels durations are, "" if of the engine's own.
	Kernels string `json:"kernels,omitempty"`
}

// ownKnobs are arguments that win over those of a calibration, and change durations.
var ownKnobs = []string{"prefill_scale", "decode_scale", "step_overhead_us", "seq_overhead_us", "request_overhead_us"}

// durationsOf describes the durations of every pool of a deployment whose predictions were opened.
func durationsOf(given, calibrated deployment, s *sdk) ([]durations, error) {
	if !given.disaggregated {
		one, err := poolDurations("worker", "extra_engine_args", given.args, calibrated.args, s)
		return []durations{one}, err
	}
	prefill, err := poolDurations("prefill", "prefill_engine_args", given.prefill, calibrated.prefill, s)
	if err != nil {
		return nil, err
	}
	decode, err := poolDurations("decode", "decode_engine_args", given.args, calibrated.args, s)
	// Splits were never compared with measurements.
	prefill.Error, decode.Error = nil, nil
	prefill.Expected, decode.Expected = nil, nil
	return []durations{prefill, decode}, err
}

// poolDurations describes one pool. option is where its arguments are from.
func poolDurations(pool, option string, given, calibrated engineargs.Args, s *sdk) (durations, error) {
	key := calibration.KeyOf(given)
	d := durations{Pool: pool, TimingModel: key.Timing, Engine: key.Engine, Scheduler: key.Scheduler}
	if given.Profile != "" {
		d.Profile = filepath.Base(given.Profile)
	}
	if given.Ranks > 1 {
		d.Experts = "slowest_rank"
	}
	known := key // with what the SDK says of the model
	kernels := ""
	if given.AIC.Backend != "" {
		session, err := s.sessions.OfDurations(option, calibrated)
		if err != nil {
			return d, err
		}
		if key.Precision == "" {
			known.Precision = calibration.PrecisionOfWeights(session.Weights)
		}
		d.System, d.Model, d.Precision = key.System, key.Model, calibration.PrecisionOf(known)
		d.Backend, d.BackendVersion = session.Config.Backend, session.Config.Version
		d.Release = session.Release
		kernels = session.Config.KernelsBeside(given.AIC)
		if given.Ranks > 1 && session.Experts {
			d.Experts = "all_ranks"
		}
	}
	prefill, decode := ratio(given.SpeedupRatio), ratio(given.SpeedupRatio*given.DecodeSpeedupRatio)
	if prefill != 1 || decode != 1 {
		d.Speedup = []float64{prefill, decode}
	}
	if given.Calibration == "" {
		d.Knobs = calibrated.Knobs != (engineargs.Knobs{PrefillScale: 1, DecodeScale: 1, KVPoolScale: 1})
	} else {
		d.Knobs = slices.ContainsFunc(ownKnobs, given.Given.Has)
		if err := d.calibrate(given.Calibration, key); err != nil {
			return d, err
		}
		d.Calibration.Kernels = kernels
	}
	d.expect(known, given)
	return d, nil
}

// calibrate says which entry of a profile the pool uses, and how large the error of that is.
func (d *durations) calibrate(at string, key calibration.Key) error {
	profile, err := calibration.Open(at)
	if err != nil {
		return err
	}
	d.Calibration = &usedCalibration{Profile: filepath.Base(at)}
	if place := profile.Choose(key); place >= 0 {
		entry := &profile.Entries[place]
		d.Calibration.Level, d.Calibration.Measurements = entry.Level, entry.Measurements
		d.Error = entry.Error
		if d.Precision != entry.Precision {
			d.Calibration.Precision = entry.Precision
		}
	}
	return nil
}

// expect says which error to expect. Durations that users change, those of kernels that the shipped profile does not
// take, and ranks in lockstep were never compared with measurements.
func (d *durations) expect(known calibration.Key, given engineargs.Args) {
	if d.Knobs || d.Speedup != nil {
		d.Error = nil
		return
	}
	shipped := given.Calibration == calibration.Auto
	compared := shipped || given.Calibration == "" && !calibration.OtherKernels(given)
	if compared && given.Ranks <= 1 {
		d.Error = calibration.MeasuredError(known, shipped)
		d.Expected = calibration.Expect(known, shipped)
	}
}

// ratio returns by what a clock divides: a ratio of 0 scales nothing.
func ratio(given float64) float64 {
	if given == 0 {
		return 1
	}
	return given
}
