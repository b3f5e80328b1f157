package job

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"dynosim/gocore/cachetrace"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/fleet"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
	"dynosim/gocore/workload"
)

// unusedOptions warns of options that are valid but change nothing in this run.
func unusedOptions(o *strictjson.Object, s *Spec) (warnings []string) {
	for _, opt := range options {
		for _, when := range opt.idle {
			if because := when(o, s); because != "" && !o.AtDefault(opt.Name) {
				warnings = append(warnings, fmt.Sprintf("%s %s has no effect %s", opt.Name, o.Shown(opt.Name), because))
			}
		}
	}
	if args := s.deployment.args; !args.PrefixCaching && args.Eviction == engineargs.LRU {
		warnings = append(warnings, "engine argument eviction_backend lru has no effect with enable_prefix_caching false")
	}
	if mode := s.routing.Mode; !mode.Configured &&
		s.deployment.anyPool(func(a engineargs.Args) bool { return a.RouterQueuePolicy != "" }) {
		warnings = append(warnings, "engine argument router_queue_policy has no effect with router_mode "+mode.Name)
	}
	return append(warnings, s.warnOfUnusedCacheFaults()...)
}

// unusedSeed returns a warning that the seed has no effect because nothing is drawn from it, "" for none.
func unusedSeed(o *strictjson.Object, s *Spec) string {
	drawn := s.generated.Draws() || s.generated.Arrivals.Draws() && s.concurrency == 0 && !o.Given("arrival_seed")
	if s.routing.Mode.Configured || s.routing.Mode.Draws || drawn || s.drawsFaults() || s.deployment.drawsStartUps() ||
		!s.synthetic && s.trace.format.Draws() || o.AtDefault("seed") {
		return ""
	}
	because := "with router_mode " + s.routing.Mode.Name
	if s.synthetic {
		because += " and a workload in which nothing is drawn"
	}
	return fmt.Sprintf("seed %s has no effect %s", o.Shown("seed"), because)
}

// ineffective warns of input that is valid but changes nothing in this run.
func (r *run) ineffective() []string {
	warnings := slices.Clone(r.unused)
	w, args := r.workload, r.deployment.args
	if mode := r.routing.Mode; !mode.Configured {
		if w.RouterHints && !mode.Asks && !mode.UsesEvents && r.policy == "" {
			warnings = append(warnings, w.File+": priority and strict_priority have no effect with router_mode "+mode.Name)
		}
		if r.deployment.anyPool(func(a engineargs.Args) bool {
			return !worker.Traits(a).BoundsBatches && a.MaxNumBatchedTokens != engineargs.Default().MaxNumBatchedTokens
		}) {
			warnings = append(warnings, "engine argument max_num_batched_tokens has no effect with engine_type "+
				"sglang and router_mode "+mode.Name)
		}
	}
	if r.routing.Mode.Configured {
		switch policy := r.routing.Config.QueuePolicy; {
		case policy == router.WFQ && !w.Tenants:
			warnings = append(warnings, "router_config: router_queue_policy wfq has no effect without tenants in the trace")
		case policy == router.EDF && !w.Deadlines():
			warnings = append(warnings, "router_config: router_queue_policy edf has no effect without deadline_ms in the trace")
		}
	}
	if text := cachetrace.Warning(os.Getenv(cachetrace.Variable), args); text != "" {
		warnings = append(warnings, text)
	}
	for _, text := range w.Notes.Texts(w.Len()) {
		warnings = append(warnings, w.File+": "+text)
	}
	for _, hints := range w.Hints {
		if hints.PolicyClass != "" {
			warnings = append(warnings, w.File+": policy_class has no effect without a router policy file")
			break
		}
	}
	if r.unusedSeed != "" {
		warnings = append(warnings, r.unusedSeed)
	}
	return warnings
}

// outcomeWarnings names the requests that were rejected or got fewer tokens than they asked for.
func (r *run) outcomeWarnings(c *report.Collector) []string {
	var never, refused []engine.Rejection
	for _, rejected := range c.Rejected() {
		if rejected.Reason == fleet.Refused {
			refused = append(refused, rejected)
		} else {
			never = append(never, rejected)
		}
	}
	lines := []string{
		cutWarning(r.deployment.args, r.workload),
		rejectionWarning("%d of %d requests can never run and were rejected", never, r.workload),
		rejectionWarning("%d of %d requests were refused by the router", refused, r.workload),
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// rejectionWarning names requests that were rejected, on one line. what has room for their number and that of all.
func rejectionWarning(what string, rejected []engine.Rejection, w *workload.Workload) string {
	const shown = 5
	if len(rejected) == 0 {
		return ""
	}
	var names []string
	for i, r := range rejected {
		if i == shown {
			names = append(names, fmt.Sprintf("and %d more", len(rejected)-shown))
			break
		}
		name := w.TurnName(int32(r.ID))
		if r.Reason != fleet.Refused {
			name += ": " + r.Reason
		}
		names = append(names, name)
	}
	return fmt.Sprintf(what+": %s", len(rejected), w.Len(), strings.Join(names, "; "))
}
