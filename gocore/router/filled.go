package router

import "dynosim/gocore/strictjson"

// Filled returns an object that ParseConfig accepts with its defaults filled in, so that ParseConfig of it gives the
// same configuration. Fields without effect are left out unless they are given, deprecated names are replaced.
func Filled(text string) (map[string]any, error) {
	o, err := strictjson.Decode(text, schema())
	if err != nil {
		return nil, err
	}
	filled := map[string]any{}
	for _, f := range table {
		switch {
		case f.use == retired || f.Name == "overlap_score_weight":
		case o.Null(f.Name) && f.use == applied && f.Default != nil: // no limit
			filled[f.Name] = nil
		case o.Given(f.Name) || f.use == applied && f.Default != nil:
			filled[f.Name] = o.Value(f.Name)
		}
	}
	c := build(o)
	filled["overlap_score_credit"], filled["prefill_load_scale"] = c.OverlapCredit, c.PrefillLoadScale
	return filled, nil
}
