package job

import (
	"fmt"

	"dynosim/gocore/deploy"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
)

// checkPolicy refuses engines that ask no policy.
func checkPolicy(o *strictjson.Object, d deployment) error {
	if !o.Given("scheduler_policy") {
		return nil
	}
	for _, pool := range d.inOrder() {
		if !worker.Traits(pool.Args).Policies {
			return &strictjson.FieldError{
				Field: "scheduler_policy", Got: o.Shown("scheduler_policy"),
				Want: fmt.Sprintf("engine_type %s or %s with scheduler %s with it: the one of %s asks nobody",
					engineargs.VLLM, engineargs.TRTLLM, engineargs.Dynamo, pool.Args.SchedulerName()),
			}
		}
	}
	return nil
}

// askPolicies begins the policies of a run, nil if it has none.
func (r *run) askPolicies() (*deploy.Policies, error) {
	if r.policy == "" {
		return nil, nil
	}
	return deploy.NewPolicies(r.monitor.Ask, func(id int32) string {
		if r.faults != nil {
			return fmt.Sprintf("request %d", id)
		}
		return r.workload.TurnName(id)
	})
}
