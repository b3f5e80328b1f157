package job

import (
	"encoding/json"
	"errors"
	"strings"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

// checkAsked refuses what a router in Python cannot be combined with.
func checkAsked(o *strictjson.Object) error {
	if !o.Given("router") {
		return nil
	}
	if o.Given("router_mode") {
		return &strictjson.FieldError{Field: "router_mode", Got: o.Shown("router_mode"),
			Want: "it left out with router " + o.Shown("router")}
	}
	if mode := routerMode(o); !mode.Asks || !o.Given("router_config") {
		return nil
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(o.Text("router_config")), &settings); err != nil {
		return &strictjson.FieldError{Field: "router_config", Got: o.Shown("router_config"), Want: "an object"}
	}
	return nil
}

// askedFile returns the file that a router in Python is read from, "" if it comes from a module.
func askedFile(asked string) string {
	path, _, _ := cutLast(asked, ":")
	if strings.HasSuffix(path, ".py") {
		return path
	}
	return ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// named gives the request at which a router in Python has failed the name that messages use. Attempts of runs with
// faults keep their numbers.
func (r *run) named(err error) error {
	var decision *router.DecisionError
	if errors.As(err, &decision) && decision.ID >= 0 && r.faults == nil {
		decision.Name = r.workload.TurnName(decision.ID)
	}
	return err
}

// askRouters tells routers how many blocks workers have, and has those in Python decide.
func (r *run) askRouters() {
	for i, stage := range r.stages {
		if r.routing.Mode.Asks {
			stage.Decider = &router.Remote{Ask: r.monitor.Ask}
		}
		stage.Blocks = r.deployment.args.NumGPUBlocks
		if i == 0 && r.deployment.disaggregated {
			stage.Blocks = r.deployment.prefill.NumGPUBlocks
		}
	}
}
