package conform

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a compiled JSON Schema, and what else has to be known to make instances.
type schema struct {
	root *jsonschema.Schema
	// order has the names in an object of the schema's text, in their order, by the place of the object: models write
	// properties in the order of the schema.
	order map[string][]string
	// heights say how deep an instance is nested at least; never for none.
	heights map[*jsonschema.Schema]int
}

// never is the height of what has no instance.
const never = maxDepth / 2

// place is where schemas are while they are compiled.
const place = "schema:///"

// anyObject is what Object makes.
const anyObject = `{"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [
	{"type": "string"}, {"type": "string"}, {"type": "integer"}, {"type": "boolean"},
	{"type": "array", "items": {"type": "string"}, "minItems": 1}]}}`

// Object returns the form of texts that are any JSON object.
func Object() Form {
	form, err := Schema([]byte(anyObject))
	if err != nil {
		panic(err)
	}
	return form
}

// Schema returns the form of texts that are valid instances of a JSON Schema. References to other documents are
// refused.
func Schema(text []byte) (Form, error) {
	if len(text) > maxSchema {
		return nil, fmt.Errorf("got a schema of %d bytes, want at most %d", len(text), maxSchema)
	}
	if !jsontext.Value(text).IsValid() {
		return nil, errors.New("got a text that is no JSON, want a JSON Schema")
	}
	if err := checkNumbers(text); err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // reads nothing
	if err := compiler.AddResource(place, document); err != nil {
		return nil, err
	}
	root, err := compiler.Compile(place)
	if err != nil {
		return nil, broken(err)
	}
	s := &schema{root: root, order: orders(text)}
	s.measure()
	if s.heights[root] >= never {
		return nil, errors.New("nothing conforms to this schema, or only what is nested too deep")
	}
	return s, nil
}

// checkNumbers refuses numbers that have more digits than anybody needs, which would take long to compute with, and
// deep nesting.
func checkNumbers(text []byte) error {
	from := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := from.ReadToken()
		if err != nil { // the end
			return nil
		}
		if from.StackDepth() > maxDepth {
			return fmt.Errorf("got a schema that is nested deeper than %d levels", maxDepth)
		}
		if token.Kind() == '0' {
			size, err := strconv.ParseFloat(token.String(), 64)
			if size = math.Abs(size); err != nil || len(token.String()) > 400 || size > 1e300 ||
				size > 0 && size < 1e-300 {
				return fmt.Errorf("got the number %.40s, want one that a double-precision number can hold",
					token.String())
			}
		}
	}
}

// broken says in one line what is wrong with a schema.
func broken(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return fmt.Errorf("%s is another document, want all of the schema in one", strings.TrimPrefix(load.URL, place))
	}
	return errors.New(deepest(err))
}

// deepest returns the first line of the cause of an error that has no cause itself.
func deepest(err error) string {
	lines := strings.Split(err.Error(), "\n")
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	i := min(1, len(lines)-1)
	for i+1 < len(lines) && indent(lines[i+1]) > indent(lines[i]) {
		i++
	}
	line := strings.TrimPrefix(strings.TrimSpace(lines[i]), "- ")
	line = strings.ReplaceAll(line, `"`+place+`#"`, "the schema")
	return strings.ReplaceAll(line, place, "")
}

// orders finds the order of names in the text of a schema.
func orders(text []byte) map[string][]string {
	found := map[string][]string{}
	from := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := from.ReadToken()
		if err != nil {
			return found
		}
		if kind, n := from.StackIndex(from.StackDepth()); kind == '{' && n%2 == 1 && token.Kind() == '"' {
			parent := from.StackPointer().Parent()
			if parent.LastToken() == "properties" {
				found[string(parent)] = append(found[string(parent)], token.String())
			}
		}
	}
}

// properties returns the names of the properties of a schema in their order.
func (s *schema) properties(of *jsonschema.Schema) []string {
	_, at, _ := strings.Cut(of.Location, "#")
	if plain, err := url.PathUnescape(at); err == nil {
		at = plain
	}
	if names := s.order[at+"/properties"]; len(names) == len(of.Properties) {
		return names
	}
	names := make([]string, 0, len(of.Properties))
	for name := range of.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// measure finds the heights of all schemas.
func (s *schema) measure() {
	s.heights = map[*jsonschema.Schema]int{}
	var all []*jsonschema.Schema
	var visit func(*jsonschema.Schema)
	visit = func(one *jsonschema.Schema) {
		if one == nil {
			return
		}
		if _, known := s.heights[one]; known {
			return
		}
		s.heights[one] = never
		all = append(all, one)
		for _, part := range parts(one) {
			visit(part)
		}
	}
	visit(s.root)
	for changed, rounds := true, 0; changed && rounds <= never; rounds++ {
		changed = false
		for _, one := range all {
			if h := s.height(one); h < s.heights[one] {
				s.heights[one], changed = h, true
			}
		}
	}
}

// parts returns the schemas of which instances of a schema may be made.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems,
		[]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Items2020, s.Contains, s.If, s.Then, s.Else, s.PropertyNames})
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	for _, name := range sorted(s.Properties) {
		list = append(list, s.Properties[name])
	}
	for _, pattern := range patterns(s) {
		list = append(list, s.PatternProperties[pattern])
	}
	for _, other := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch other := other.(type) {
		case *jsonschema.Schema:
			list = append(list, other)
		case []*jsonschema.Schema:
			list = append(list, other...)
		}
	}
	return list
}

func sorted(properties map[string]*jsonschema.Schema) []string {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// patterns returns those of patternProperties, in an order.
func patterns(s *jsonschema.Schema) []jsonschema.Regexp {
	list := make([]jsonschema.Regexp, 0, len(s.PatternProperties))
	for pattern := range s.PatternProperties {
		list = append(list, pattern)
	}
	slices.SortFunc(list, func(a, b jsonschema.Regexp) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// height returns how deep instances of a schema are nested at least, as far as the heights of its parts are known.
func (s *schema) height(of *jsonschema.Schema) int {
	if of.Bool != nil {
		if *of.Bool {
			return 0
		}
		return never
	}
	h := 0
	for _, part := range append(slices.Clone(of.AllOf), of.Ref, of.RecursiveRef) {
		if part != nil {
			h = max(h, s.heights[part])
		}
	}
	if of.DynamicRef != nil && of.DynamicRef.Ref != nil {
		h = max(h, s.heights[of.DynamicRef.Ref])
	}
	for _, branches := range [][]*jsonschema.Schema{of.AnyOf, of.OneOf} {
		if len(branches) > 0 {
			h = max(h, s.lowest(branches))
		}
	}
	if of.Const != nil || of.Enum != nil {
		return h
	}
	own := never
	for _, kind := range kindsOf([]*jsonschema.Schema{of}) {
		own = min(own, s.kindHeight(of, kind))
	}
	return max(h, own)
}

// kindHeight returns the height of the instances of one type.
func (s *schema) kindHeight(of *jsonschema.Schema, kind string) int {
	h := 0
	switch kind {
	case "object":
		for _, name := range of.Required {
			if part := of.Properties[name]; part != nil {
				h = max(h, 1+s.heights[part])
			}
		}
	case "array":
		for i := range min(fewestItems(of), maxDepth) {
			for _, part := range itemSchemas(of, i) {
				h = max(h, 1+s.heights[part])
			}
		}
	}
	return min(h, never)
}

// lowest returns the smallest height of several schemas.
func (s *schema) lowest(list []*jsonschema.Schema) int {
	h := never
	for _, one := range list {
		h = min(h, s.heights[one])
	}
	return h
}

// kinds are the types of JSON.
var kinds = []string{"object", "array", "string", "integer", "number", "boolean", "null"}

// kindsOf returns the types that instances of all schemas of a list may have. If they do not say it, it is what their
// other words are about.
func kindsOf(all []*jsonschema.Schema) []string {
	allowed, said := slices.Clone(kinds), false
	for _, s := range all {
		if s.Types == nil || s.Types.IsEmpty() {
			continue
		}
		said = true
		listed := s.Types.ToStrings()
		allowed = slices.DeleteFunc(allowed, func(kind string) bool {
			return !slices.Contains(listed, kind) && (kind != "integer" || !slices.Contains(listed, "number"))
		})
	}
	if said {
		if slices.Contains(allowed, "number") { // of which integers are a part
			allowed = slices.DeleteFunc(allowed, func(kind string) bool { return kind == "integer" })
		}
		return allowed
	}
	for _, s := range all {
		switch {
		case s.Properties != nil || s.Required != nil || s.AdditionalProperties != nil || s.MinProperties != nil ||
			s.PatternProperties != nil || s.PropertyNames != nil:
			return []string{"object"}
		case s.Items != nil || s.Items2020 != nil || s.PrefixItems != nil || s.MinItems != nil || s.MaxItems != nil ||
			s.Contains != nil || s.UniqueItems:
			return []string{"array"}
		case s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil ||
			s.MultipleOf != nil:
			return []string{"number"}
		}
	}
	return []string{"string"}
}

// fewestItems returns the number of items that an array has at least.
func fewestItems(s *jsonschema.Schema) int {
	n := 0
	if s.MinItems != nil {
		n = *s.MinItems
	}
	if s.Contains != nil {
		n = max(n, fewestContained(s))
	}
	return n
}

// fewestContained returns the number of items that conform to "contains" at least.
func fewestContained(s *jsonschema.Schema) int {
	if s.MinContains != nil {
		return *s.MinContains
	}
	return 1
}

// itemSchemas returns what the item at a place conforms to.
func itemSchemas(s *jsonschema.Schema, at int) (list []*jsonschema.Schema) {
	first, rest := s.PrefixItems, any(s.Items2020)
	switch items := s.Items.(type) { // before 2020
	case []*jsonschema.Schema:
		first, rest = items, s.AdditionalItems
	case *jsonschema.Schema:
		rest = items
	}
	if at < len(first) {
		return first[at : at+1]
	}
	switch rest := rest.(type) {
	case *jsonschema.Schema:
		if rest != nil {
			list = append(list, rest)
		}
	case bool:
		if !rest {
			list = append(list, nothing)
		}
	}
	if s.Contains != nil && at-len(first) < fewestContained(s) {
		list = append(list, s.Contains)
	}
	return list
}

// nothing is a schema without instances.
var nothing = &jsonschema.Schema{Bool: new(bool)}
