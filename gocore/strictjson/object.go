package strictjson

import (
	"fmt"
	"math"
)

// Object is a decoded object. It is read-only. Asking for a name outside the schema, or for another
// type than declared, is a mistake in the program and panics.
type Object struct {
	path    string // of the object itself, "" for the outermost one
	fields  []Field
	members []member // one per field
}

// member is what the text says about one field.
type member struct {
	given bool // the key is there
	null  bool // its value is null
	shown string
	value any
}

// RangeErrors returns a *FieldError for every value outside its range, in the order of the schema,
// those of nested objects included.
func (o *Object) RangeErrors() []error {
	var errs []error
	for i, m := range o.members {
		if m.value == nil {
			continue
		}
		if inner, ok := m.value.(*Object); ok {
			errs = append(errs, inner.RangeErrors()...)
		} else if list, ok := m.value.([]*Object); ok {
			for _, inner := range list {
				errs = append(errs, inner.RangeErrors()...)
			}
		} else if rule := o.fields[i].Type.broken(m.value); rule != "" {
			errs = append(errs, &FieldError{Field: o.pathOf(i), Got: m.shown, Want: rule})
		}
	}
	return errs
}

// Given reports whether the key is there with a value other than null.
func (o *Object) Given(name string) bool {
	m, _ := o.lookup(name)
	return m.given && !m.null
}

// Null reports whether the key is there and null.
func (o *Object) Null(name string) bool {
	m, _ := o.lookup(name)
	return m.null
}

// AtDefault reports whether the field says nothing new: absent, null or equal to its default.
func (o *Object) AtDefault(name string) bool {
	m, f := o.lookup(name)
	if !m.given || m.null {
		return true
	}
	if n, ok := f.Default.(int); ok {
		return m.value == uint64(n)
	}
	return f.Default != nil && m.value == f.Default
}

// Shown returns the value as the text has it, cut when long, for messages. It is "" for an absent key.
func (o *Object) Shown(name string) string {
	m, _ := o.lookup(name)
	return m.shown
}

// Int returns the value of an Integer. RangeErrors must have found nothing, and the range must lie within int.
func (o *Object) Int(name string) int {
	m, f := o.lookup(name)
	switch v := m.value.(type) {
	case nil:
		return defaultOf[int](f)
	case uint64:
		if v <= math.MaxInt {
			return int(v)
		}
	}
	panic(fmt.Sprintf("strictjson: %s holds %v, which is no int", name, m.value))
}

// Uint returns the value of an Integer that may be beyond int. RangeErrors must have found nothing.
func (o *Object) Uint(name string) uint64 {
	m, f := o.lookup(name)
	if m.value == nil {
		return uint64(defaultOf[int](f))
	}
	return m.value.(uint64)
}

// Float returns the value of a Number. RangeErrors must have found nothing.
func (o *Object) Float(name string) float64 { return valueOf[float64](o, name) }

// Bool returns the value of a Bool.
func (o *Object) Bool(name string) bool { return valueOf[bool](o, name) }

// Text returns the value of a Text or an Enum.
func (o *Object) Text(name string) string { return valueOf[string](o, name) }

// List returns the value of a List, nil when the key is absent or null. The slice belongs to the object: do not change
// it.
func (o *Object) List(name string) []string { return valueOf[[]string](o, name) }

// Names lists the fields of the schema in its order.
func (o *Object) Names() []string {
	names := make([]string, len(o.fields))
	for i := range o.fields {
		names[i] = o.fields[i].Name
	}
	return names
}

// Value returns the value of a field of any type but Nested and Any, as encoding/json takes it: its default when the
// key is absent or null, nil when there is none. Of Objects it has the members that are given.
func (o *Object) Value(name string) any {
	m, f := o.lookup(name)
	if m.value == nil {
		return f.Default
	}
	list, ok := m.value.([]*Object)
	if !ok {
		return m.value
	}
	values := make([]map[string]any, len(list))
	for i, inner := range list {
		values[i] = map[string]any{}
		for _, member := range inner.Names() {
			if inner.Given(member) {
				values[i][member] = inner.Value(member)
			}
		}
	}
	return values
}

// Objects returns the value of an Objects, nil when the key is absent or null.
func (o *Object) Objects(name string) []*Object { return valueOf[[]*Object](o, name) }

// Object returns the value of a Nested, nil when the key is absent or null.
func (o *Object) Object(name string) *Object { return valueOf[*Object](o, name) }

func valueOf[T any](o *Object, name string) T {
	m, f := o.lookup(name)
	if m.value == nil {
		return defaultOf[T](f)
	}
	return m.value.(T)
}

func defaultOf[T any](f *Field) T {
	if f.Default == nil {
		var zero T
		return zero
	}
	return f.Default.(T)
}

func (o *Object) lookup(name string) (*member, *Field) {
	i, ok := o.find(name)
	if !ok {
		panic(fmt.Sprintf("strictjson: no field %q in the schema", name))
	}
	return &o.members[i], &o.fields[i]
}

// find searches linearly: schemas have tens of fields, and are read once per run.
func (o *Object) find(name string) (int, bool) {
	for i := range o.fields {
		if o.fields[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

func (o *Object) pathOf(i int) string {
	if o.path == "" {
		return o.fields[i].Name
	}
	return o.path + "." + o.fields[i].Name
}

// checkPresence refuses nulls that mean nothing, missing required keys and words outside their choices,
// and gives each word the spelling of the schema.
func (o *Object) checkPresence() error {
	for i := range o.fields {
		m, f := &o.members[i], &o.fields[i]
		switch {
		case !m.given && f.Required:
			return &FieldError{Field: o.pathOf(i), Got: "nothing", Want: f.Type.Want()}
		case m.null && f.NotNull:
			return &FieldError{Field: o.pathOf(i), Got: "null", Want: f.Type.Want()}
		case !m.given || m.null:
			continue
		}
		switch t := f.Type.(type) {
		case Nested:
			if err := m.value.(*Object).checkPresence(); err != nil {
				return err
			}
		case Objects:
			for _, inner := range m.value.([]*Object) {
				if err := inner.checkPresence(); err != nil {
					return err
				}
			}
		case Enum:
			word, ok := t.choice(m.value.(string))
			if !ok {
				return &FieldError{Field: o.pathOf(i), Got: m.shown, Want: t.Want()}
			}
			m.value = word
		}
	}
	return nil
}
