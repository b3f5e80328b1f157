package router

import (
	"errors"
	"fmt"
	"strings"

	"dynosim/gocore/strictjson"
)

// ParseSettings reads the router configuration of a mode that has settings of its own. A key that only other modes have
// is refused with their names.
func (m Mode) ParseSettings(text string) (*strictjson.Object, error) {
	o, err := strictjson.Decode(text, strictjson.Schema{Fields: m.Settings})
	var unknown *strictjson.UnknownFieldError
	if errors.As(err, &unknown) {
		if others := modesWith(unknown.Field); len(others) > 0 {
			return nil, fmt.Errorf("%s: not a setting of router_mode %s, but of %s; it takes %s",
				unknown.Field, m.Name, strings.Join(others, ", "), strings.Join(unknown.Accepted, ", "))
		}
	}
	if err != nil {
		return nil, err
	}
	return o, strictjson.Join(o.RangeErrors())
}

// FilledSettings returns the settings with their defaults filled in, for the record of a run.
func FilledSettings(o *strictjson.Object) map[string]any {
	filled := map[string]any{}
	for _, name := range o.Names() {
		if v := o.Value(name); v != nil {
			filled[name] = v
		}
	}
	return filled
}

// modesWith lists the modes that have a setting of this name.
func modesWith(key string) (names []string) {
	for _, m := range modes {
		fields := m.Settings
		if m.Configured {
			fields = schema().Fields
		}
		for _, f := range fields {
			if f.Name == key {
				names = append(names, m.Name)
			}
		}
	}
	return names
}
