package engine

import (
	"reflect"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestIdle: a pass is idle only if nothing about it can be seen.
func TestIdle(t *testing.T) {
	if idle := (&Pass{StartMs: 5, EndMs: 5, KVEventsAtMs: 5, Preempted: 1}); !idle.Idle() {
		t.Error("a pass without time and effect is idle")
	}
	for name, pass := range map[string]Pass{
		"time":      {EndMs: 1},
		"work":      {Scheduled: 1},
		"admission": {Admitted: []Admission{{ID: 1}}},
		"token":     {Tokens: 1},
		"rejection": {Rejected: []Rejection{{ID: 1}}},
		"event":     {KVEvents: []kvcache.Event{{Kind: kvcache.Stored}}},
		"transfer":  {Transfers: []Transfer{{To: kvcache.Device, Blocks: 1, EndMs: 3}}},
	} {
		if pass.Idle() {
			t.Errorf("%s: the pass is idle", name)
		}
	}
}

// TestReset: nothing of a pass is left for the next one but the room of its slices.
func TestReset(t *testing.T) {
	pass := new(Pass)
	fields := reflect.ValueOf(pass).Elem()
	for i := range fields.NumField() {
		fill(t, fields.Type().Field(i).Name, fields.Field(i))
	}
	parts := new(Parts)
	pass.Reset(7, parts)
	for i := range fields.NumField() {
		field, name := fields.Field(i), fields.Type().Field(i).Name
		switch {
		case name == "StartMs" || name == "Parts":
		case field.Kind() == reflect.Slice:
			if field.Len() != 0 || field.Cap() == 0 {
				t.Errorf("%s has %d elements and room for %d", name, field.Len(), field.Cap())
			}
		case !field.IsZero():
			t.Errorf("%s is still %v", name, field)
		}
	}
	if pass.StartMs != 7 || pass.Parts != parts {
		t.Errorf("the pass starts at %v, with parts at %p", pass.StartMs, pass.Parts)
	}
}

// fill sets a value to something other than zero.
func fill(t *testing.T, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(3)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	default:
		t.Fatalf("%s: no value of this kind, %s, is known here", name, v.Kind())
	}
}
