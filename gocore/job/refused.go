package job

import "dynosim/gocore/strictjson"

// laterOption is a key whose feature is not built yet. It is known so that the message can say so; only its default value
// is accepted.
type laterOption struct {
	strictjson.Field
	feature string
}

var notBuilt = []laterOption{
	later("router_policy_config", strictjson.Text{}, "router policy files"),
	later("planner_config", strictjson.Any{}, "the planner"),
	laterUnless("benchmark_granularity", strictjson.Integer{}, 8, "the planner"),
}

func later(name string, t strictjson.Type, feature string) laterOption {
	return laterUnless(name, t, nil, feature)
}

func laterUnless(name string, t strictjson.Type, standard any, feature string) laterOption {
	return laterOption{Field: strictjson.Field{Name: name, Type: t, Default: standard}, feature: feature}
}

// refuse names the first option whose feature is not built yet.
func refuse(o *strictjson.Object) error {
	for _, option := range notBuilt {
		if !o.AtDefault(option.Name) {
			return &strictjson.NotBuiltError{Field: option.Name, Value: o.Shown(option.Name), Feature: option.feature}
		}
	}
	return nil
}
