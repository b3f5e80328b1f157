package job

import (
	"dynosim/gocore/faults"
	"dynosim/gocore/replay"
	"dynosim/gocore/strictjson"
)

// idleWhen returns why an option has no effect in a run, "" if that is not the reason. The table of options has those
// of each option.
type idleWhen func(*strictjson.Object, *Spec) string

// because returns the reason if it holds.
func because(holds bool, reason string) string {
	if holds {
		return reason
	}
	return ""
}

func withConcurrency(_ *strictjson.Object, s *Spec) string {
	return because(s.concurrency > 0, "with replay_concurrency")
}

func withEvenArrivals(_ *strictjson.Object, s *Spec) string {
	return because(s.synthetic && s.concurrency == 0 && !s.generated.Arrivals.Draws(),
		"with arrivals that are not drawn")
}

// withoutPolicyFile always holds: the option selects a profile of a router policy file, and runs with one are refused.
func withoutPolicyFile(*strictjson.Object, *Spec) string { return "without router_policy_config" }

func withOneTurn(o *strictjson.Object, _ *Spec) string {
	return because(o.Int("turns_per_session") == 1, "with one turn per session")
}

func withNothingShared(o *strictjson.Object, _ *Spec) string {
	return because(o.Float("shared_prefix_ratio") == 0, "with shared_prefix_ratio 0")
}

func withoutGroups(o *strictjson.Object, _ *Spec) string {
	return because(o.Int("num_prefix_groups") == 0, "without num_prefix_groups")
}

func withSizedBlocks(_ *strictjson.Object, s *Spec) string {
	return because(!s.synthetic && !s.trace.format.UsesBlockSize(), "with trace_format "+s.trace.format.String())
}

func withOwnPrefixes(_ *strictjson.Object, s *Spec) string {
	return because(!s.trace.format.Shares(), "with trace_format "+s.trace.format.String())
}

func withPlainRouter(_ *strictjson.Object, s *Spec) string {
	mode := s.routing.Mode
	return because(!mode.Configured && mode.Settings == nil && !mode.Asks, "with router_mode "+mode.Name)
}

func withoutFaults(_ *strictjson.Object, s *Spec) string {
	return because(s.faults == nil, "without faults and client_timeout_ms")
}

func withoutScript(o *strictjson.Object, s *Spec) string {
	return because(s.faults == nil && !o.Given("faults"), "without faults")
}

func withoutRates(o *strictjson.Object, s *Spec) string {
	rare := func(f *faults.Fault) bool { return f.MTBFMs > 0 }
	return because(s.faults != nil && o.Float("fault_rate") != 0 && !s.scripted(rare), "without a fault with mtbf_s")
}

func withoutWorkerFaults(_ *strictjson.Object, s *Spec) string {
	return because(s.faults != nil && !s.scripted((*faults.Fault).OfWorkers), "without a fault of a worker")
}

// loses reports whether a fault takes workers away from routers.
func loses(f *faults.Fault) bool { return f.Kind == faults.Crash || f.Kind == faults.Partition }

func withoutLosses(_ *strictjson.Object, s *Spec) string {
	return because(s.faults != nil && !s.scripted(loses), "without a crash or a partition")
}

func withoutCrashes(_ *strictjson.Object, s *Spec) string {
	return because(s.faults != nil && !s.scripted(loses), "without a crash")
}

func withoutRetries(o *strictjson.Object, s *Spec) string {
	switch {
	case s.faults == nil:
		return ""
	case s.faults.Rules == replay.Rules16:
		return "with router_rules 1.6: requests that are refused go to the router again at any time"
	default:
		return because(o.Int("migration_limit") == 0, "without migration_limit")
	}
}

func withoutClientRetries(o *strictjson.Object, s *Spec) string {
	return because(s.faults != nil && o.Int("client_retries") == 0, "without client_retries")
}
