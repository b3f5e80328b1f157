package engineargs

import (
	"slices"
	"strings"

	"dynosim/gocore/aic"
	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// use is what this build does with a field; see doc.go.
type use uint8

const (
	applied use = iota
	liveOnly
	startUp
	plannedOnly
	offload
	hostBlocks
	silent
)

// field is one row of the table.
type field struct {
	strictjson.Field
	use     use
	engines []EngineType  // in which an applied field has an effect; nil for all
	workers []engine.Role // likewise
	rules   []Scheduler   // likewise
	from    Release       // the first release of vLLM that has the field, 0 for all
	// aic marks the fields that only predictions by AIC use.
	aic bool
	// without names a field that leaves this one without effect, "" for none.
	without string
	// pool marks those of them that only the estimate of a KV pool uses, and backend is the AIC backend for which it
	// does, "" for all.
	pool    bool
	backend string
	// zeroIsUnset marks the counts of which 0 says the same as null.
	zeroIsUnset bool
	// instead is the value that a field without a default has if it is not given, nil if there is none or it depends on
	// others.
	instead any

	// What Python's classes do with the field: it cannot be given by position; they do not have it, only JSON has; it
	// can be set in an existing object; capitals are accepted, too.
	keywordOnly, jsonOnly, mutable, anyCase bool
}

// row starts an applied field. Null is allowed where it is the default.
func row(name string, t strictjson.Type, byDefault any, doc string) field {
	return field{Field: strictjson.Field{Name: name, Type: t, Default: byDefault, NotNull: byDefault != nil, Doc: doc}}
}

// aicRow starts a field that package aic describes. None of them has a default here.
func aicRow(name string) field {
	i := slices.IndexFunc(aic.Fields, func(f strictjson.Field) bool { return f.Name == name })
	return row(name, aic.Fields[i].Type, nil, aic.Fields[i].Doc).settable()
}

// memoryRow starts a field with the share of GPU memory from which the KV pool of a backend is estimated.
func memoryRow(name, backend, doc string) field {
	memory, _ := aic.Config{Backend: backend}.Memory()
	f := row(name, fraction, nil, doc).forPool().implied(memory.Fraction).settable()
	f.backend = backend
	return f
}

func (f field) doc(text string) field {
	f.Doc = text
	return f
}

func (f field) orNull() field {
	f.NotNull = false
	return f
}

// needed makes a field required, which then cannot be null.
func (f field) needed() field {
	f.Required, f.NotNull = true, true
	return f
}

func (f field) as(u use) field {
	f.use = u
	return f
}

func (f field) only(engines ...EngineType) field {
	f.engines = engines
	return f
}

func (f field) on(workers ...engine.Role) field {
	f.workers = workers
	return f
}

func (f field) by(rules ...Scheduler) field {
	f.rules = rules
	return f
}

// since makes a field one of vLLM's own scheduler, from a release on.
func (f field) since(r Release) field {
	f = f.only(VLLM).by(VLLMOwn)
	f.from = r
	return f
}

func (f field) withAIC() field {
	f.aic = true
	return f
}

func (f field) forPool() field {
	f.aic, f.pool = true, true
	return f
}

func (f field) unless(other string) field {
	f.without = other
	return f
}

func (f field) zeroUnset() field {
	f.zeroIsUnset = true
	return f
}

func (f field) implied(value any) field {
	f.instead = value
	return f
}

func (f field) byKeyword() field {
	f.keywordOnly = true
	return f
}

func (f field) inJSONOnly() field {
	f.jsonOnly = true
	return f
}

func (f field) settable() field {
	f.mutable = true
	return f
}

func (f field) inAnyCase() field {
	f.anyCase = true
	return f
}

// Described returns the field of that name, or with a name such as "sglang.page_size" the member of an object, together
// with the value that it has if it is not given and has no default: nil if there is none. An unknown name is a mistake
// in the program.
func Described(name string) (f strictjson.Field, instead any) {
	rows := table
	if object, member, nested := strings.Cut(name, "."); nested {
		rows, name = members[object], member
	}
	i := slices.IndexFunc(rows, func(f field) bool { return f.Name == name })
	return rows[i].Field, rows[i].instead
}

// schema returns the table as package strictjson wants it.
func schema() strictjson.Schema { return strictjson.Schema{Fields: fieldsOf(table)} }

func fieldsOf(rows []field) []strictjson.Field {
	fields := make([]strictjson.Field, len(rows))
	for i, f := range rows {
		fields[i] = f.Field
	}
	return fields
}
