package job

import "dynosim/gocore/strictjson"

// keepsRows reports whether the run is asked for one row per request. Otherwise it remembers of a request that is over
// only what the summary needs.
func keepsRows(o *strictjson.Object) bool { return !o.Given("rows") || o.Bool("rows") }

// checkRows refuses outputs that are made of rows without rows.
func checkRows(o *strictjson.Object) error {
	for _, file := range []string{"report_jsonl_path", "html", "capture_per_request"} {
		if !keepsRows(o) && !o.AtDefault(file) {
			return &strictjson.FieldError{Field: "rows", Got: "false", Want: "true, or no " + file}
		}
	}
	return nil
}

// passes reports whether requests may be created when they arrive and discarded when they are over, because nothing
// reads them before or afterwards.
func (s *Spec) passes() bool {
	return !s.rows && s.faults == nil && !s.deployment.disaggregated && s.generated.Independent() &&
		s.outputs.trace == "" && s.outputs.routerLog == "" && s.routing.decisions == ""
}
