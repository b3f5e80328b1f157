package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// instances makes instances of one schema.
type instances struct {
	*maker
	schema *schema
}

// Text implements [Form].
func (s *schema) Text(seed uint64, size int) (text string, whole bool, err error) {
	return best(seed, size, func(m *maker) *piece {
		return (&instances{m, s}).value([]*jsonschema.Schema{s.root}, 0)
	}, s.check)
}

// check validates an instance.
func (s *schema) check(text string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	if err := s.root.Validate(value); err != nil {
		return errors.New("no instance of this schema has been found: " + deepest(err))
	}
	return nil
}

// value makes a value that conforms to all schemas of a list.
func (m *instances) value(goal []*jsonschema.Schema, depth int) *piece {
	if m.over() {
		return &piece{}
	}
	if depth > maxDepth {
		return m.fail("nothing conforms to this schema that is nested at most %d levels deep", maxDepth)
	}
	all := m.expand(goal, depth)
	if m.failed != nil {
		return &piece{}
	}
	if p, fixed := m.listed(all); fixed {
		return p
	}
	switch m.kind(all, depth) {
	case "object":
		return m.object(all, depth)
	case "array":
		return m.array(all, depth)
	case "string":
		return m.text(all)
	case "integer":
		return m.number(all, true)
	case "number":
		return m.number(all, false)
	case "boolean":
		return m.leaf(strconv.FormatBool(m.rng.IntN(2) == 0))
	case "null":
		return m.leaf("null")
	default:
		return m.fail("no type is allowed by all parts of this schema")
	}
}

// deep is the depth from which on the lowest way is taken.
const deep = 6

// expand adds what the schemas of a list refer to, one branch of each that has several.
func (m *instances) expand(goal []*jsonschema.Schema, depth int) (all []*jsonschema.Schema) {
	for queue := slices.Clone(goal); len(queue) > 0; {
		s := queue[0]
		queue = queue[1:]
		if s == nil || slices.Contains(all, s) {
			continue
		}
		if s.Bool != nil {
			if !*s.Bool {
				m.fail("a part of this schema allows nothing")
			}
			continue
		}
		all = append(all, s)
		queue = append(append(queue, s.Ref, s.RecursiveRef), s.AllOf...)
		if s.DynamicRef != nil {
			queue = append(queue, s.DynamicRef.Ref)
		}
		for _, branches := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
			if len(branches) > 0 {
				queue = append(queue, m.branch(branches, depth))
			}
		}
		if s.If != nil {
			if m.rng.IntN(2) == 0 {
				queue = append(queue, s.If, s.Then)
			} else {
				queue = append(queue, s.Else)
			}
		}
	}
	return all
}

// branch draws one of several schemas.
func (m *instances) branch(list []*jsonschema.Schema, depth int) *jsonschema.Schema {
	most := never - 1
	if depth >= deep || m.short {
		most = m.schema.lowest(list)
	}
	var possible []*jsonschema.Schema
	for _, s := range list {
		if m.schema.heights[s] <= most {
			possible = append(possible, s)
		}
	}
	if len(possible) == 0 {
		m.fail("a part of this schema allows nothing")
		return nil
	}
	return possible[m.rng.IntN(len(possible))]
}

// kind draws the type of a value.
func (m *instances) kind(all []*jsonschema.Schema, depth int) string {
	allowed, lowest := kindsOf(all), never
	heights := make([]int, len(allowed))
	for i, kind := range allowed {
		for _, s := range all {
			heights[i] = max(heights[i], m.schema.kindHeight(s, kind))
		}
		lowest = min(lowest, heights[i])
	}
	var possible []string
	for i, kind := range allowed {
		if heights[i] < never && (heights[i] == lowest || depth < deep && !m.short) {
			possible = append(possible, kind)
		}
	}
	if len(possible) == 0 {
		return ""
	}
	return possible[m.rng.IntN(len(possible))]
}

// listed draws a value if the schemas list those that there are.
func (m *instances) listed(all []*jsonschema.Schema) (p *piece, fixed bool) {
	var values []string
	for _, s := range all {
		var own []string
		switch {
		case s.Const != nil:
			own = []string{plain(*s.Const)}
		case s.Enum != nil:
			for _, v := range s.Enum.Values {
				own = append(own, plain(v))
			}
		default:
			continue
		}
		if fixed {
			own = slices.DeleteFunc(own, func(text string) bool { return !slices.Contains(values, text) })
		}
		values, fixed = own, true
	}
	if !fixed {
		return nil, false
	}
	values = slices.DeleteFunc(values, func(text string) bool { return !isOneOf(text, kindsAllowed(all)) })
	if len(values) == 0 {
		return m.fail("no listed value is allowed by all parts of this schema"), true
	}
	if m.short && m.rng.IntN(2) == 0 {
		return m.leaf(slices.MinFunc(values, func(a, b string) int { return len(a) - len(b) })), true
	}
	return m.leaf(values[m.rng.IntN(len(values))]), true
}

// kindsAllowed returns the types of listed values, nil for all.
func kindsAllowed(all []*jsonschema.Schema) []string {
	if !slices.ContainsFunc(all, func(s *jsonschema.Schema) bool { return s.Types != nil && !s.Types.IsEmpty() }) {
		return nil
	}
	return kindsOf(all)
}

// isOneOf reports whether a JSON text has one of several types.
func isOneOf(text string, allowed []string) bool {
	if allowed == nil {
		return true
	}
	switch text[0] {
	case '{':
		return slices.Contains(allowed, "object")
	case '[':
		return slices.Contains(allowed, "array")
	case '"':
		return slices.Contains(allowed, "string")
	case 't', 'f':
		return slices.Contains(allowed, "boolean")
	case 'n':
		return slices.Contains(allowed, "null")
	default:
		return slices.Contains(allowed, "number") || slices.Contains(allowed, "integer")
	}
}

// plain returns the JSON text of a value of a schema.
func plain(value any) string {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	_ = to.Encode(value)
	return strings.TrimSuffix(b.String(), "\n")
}

func quote(text string) string {
	b, _ := jsontext.AppendQuote(nil, text)
	return string(b)
}

// object makes an object. Properties come in the order of the schema, those that need not be there when there is room
// for them.
func (m *instances) object(all []*jsonschema.Schema, depth int) *piece {
	p := &piece{open: "{", close: "}", between: ", "}
	m.left -= 2
	names, required := m.properties(all)
	fewest, most := sizesOf(all)
	count := 0
	for _, name := range names {
		goal, allowed := property(all, name)
		if !required[name] {
			slot := &piece{absent: true}
			p.add(slot)
			if allowed && depth < deep {
				m.optional(p, slot, name, goal, most, depth)
			}
			continue
		}
		if !allowed {
			return m.fail("property %.40q is required and not allowed", name)
		}
		p.add(m.member(name, goal, depth))
		count++
	}
	// Names are made up for an object of which the schema knows none, unless it says so.
	free := !slices.ContainsFunc(all, func(s *jsonschema.Schema) bool { return closed(s) || s.Properties != nil })
	if free || count < fewest {
		m.entries(p, all, fewest, most, depth, free)
	}
	return p
}

// properties returns the names that schemas have, in their order, and which of them have to be there.
func (m *instances) properties(all []*jsonschema.Schema) (names []string, required map[string]bool) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range all {
		for _, name := range m.schema.properties(s) {
			add(name)
		}
	}
	required = map[string]bool{}
	for _, s := range all {
		for _, name := range s.Required {
			required[name] = true
			add(name)
		}
		for _, name := range sortedKeys(s.DependentRequired) {
			if required[name] {
				for _, other := range s.DependentRequired[name] {
					required[other] = true
				}
			}
		}
	}
	return names, required
}

// sizesOf returns how many properties an object has, as schemas say: at least, and at most, -1 for any number.
func sizesOf(all []*jsonschema.Schema) (fewest, most int) {
	most = -1
	for _, s := range all {
		if s.MinProperties != nil {
			fewest = max(fewest, *s.MinProperties)
		}
		if s.MaxProperties != nil && (most < 0 || *s.MaxProperties < most) {
			most = *s.MaxProperties
		}
	}
	return fewest, most
}

func sortedKeys(m map[string][]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// closed reports whether a schema wants no properties that it does not name.
func closed(s *jsonschema.Schema) bool {
	allowed, said := s.AdditionalProperties.(bool)
	return said && !allowed || s.UnevaluatedProperties != nil
}

// property returns what the property with a name conforms to.
func property(all []*jsonschema.Schema, name string) (goal []*jsonschema.Schema, allowed bool) {
	for _, s := range all {
		known := false
		if own := s.Properties[name]; own != nil {
			goal, known = append(goal, own), true
		}
		for _, pattern := range patterns(s) {
			if pattern.MatchString(name) {
				goal, known = append(goal, s.PatternProperties[pattern]), true
			}
		}
		if known {
			continue
		}
		switch other := s.AdditionalProperties.(type) {
		case *jsonschema.Schema:
			goal = append(goal, other)
		case bool:
			if !other {
				return nil, false
			}
		}
	}
	return goal, true
}

// member makes one member of an object.
func (m *instances) member(name string, goal []*jsonschema.Schema, depth int) *piece {
	return &piece{items: []*piece{m.leaf(quote(name) + ": "), m.value(goal, depth+1)}, present: 2}
}

// optional lets an object grow by a property.
func (m *instances) optional(p, slot *piece, name string, goal []*jsonschema.Schema, most, depth int) {
	refused := false
	m.growers = append(m.growers, func(room int) int {
		if refused || !slot.absent || most >= 0 && p.present >= most {
			return 0
		}
		kept, failed := len(m.growers), m.failed
		made := m.member(name, goal, depth)
		cost := made.size()
		if p.present > 0 {
			cost += len(p.between)
		}
		if m.over() || cost > room {
			refused = m.over()
			m.growers, m.failed = m.growers[:kept], failed
			return 0
		}
		p.enter(slot, made)
		return cost
	})
}

// entries adds members with names that are made up: as many as are wanted, and more as there is room if free.
func (m *instances) entries(p *piece, all []*jsonschema.Schema, fewest, most, depth int, free bool) {
	var named []*jsonschema.Schema
	for _, s := range all {
		if s.PropertyNames != nil {
			named = append(named, s.PropertyNames)
		}
	}
	used := map[string]bool{}
	next := func() *piece {
		if most >= 0 && p.present >= most {
			return nil
		}
		for range tries {
			name := m.entryName(all, named, depth)
			goal, allowed := property(all, name)
			if !used[name] && allowed && name != "" {
				used[name] = true
				return m.member(name, goal, depth)
			}
		}
		return nil
	}
	for _, item := range p.items { // those that need not be there come first
		if p.present >= fewest {
			break
		}
		if item.absent {
			m.force(item, all, p, depth)
		}
	}
	for p.present < fewest && !m.over() {
		item := next()
		if item == nil {
			m.fail("no names are left for %d properties", fewest)
			return
		}
		p.add(item)
	}
	if free && depth < deep {
		m.growers = append(m.growers, func(room int) int { return m.more(p, room, next) })
	}
}

// force puts a property that need not be there into its place.
func (m *instances) force(slot *piece, all []*jsonschema.Schema, p *piece, depth int) {
	at := slices.Index(p.items, slot)
	n := 0
	for _, s := range all {
		for _, name := range m.schema.properties(s) {
			if n == at {
				if goal, allowed := property(all, name); allowed {
					p.enter(slot, m.member(name, goal, depth))
				}
				return
			}
			n++
		}
	}
}

// entryName makes up the name of a property.
func (m *instances) entryName(all, named []*jsonschema.Schema, depth int) string {
	if len(named) > 0 {
		var name string
		if json.Unmarshal([]byte(m.detached(func(own *instances) *piece { return own.value(named, depth+1) }, 0)),
			&name) != nil {
			return ""
		}
		return name
	}
	for _, s := range all {
		if list := patterns(s); len(list) > 0 && closed(s) {
			return m.matching(list[m.rng.IntN(len(list))].String(), 0, 0, 64)
		}
	}
	word, _, _ := strings.Cut(words(24, m.rng.Uint64()), " ")
	if m.rng.IntN(2) == 0 {
		word += "_" + strconv.Itoa(m.rng.IntN(1000))
	}
	return word
}

// detached makes a text that is no part of the one that is being made.
func (m *instances) detached(make func(*instances) *piece, room int) string {
	own := &instances{&maker{rng: m.rng, left: Slack, short: m.short}, m.schema}
	p := make(own)
	if own.failed != nil || own.left < 0 {
		return ""
	}
	own.fill(room - p.size())
	return p.String()
}

// array makes an array.
func (m *instances) array(all []*jsonschema.Schema, depth int) *piece {
	p := &piece{open: "[", close: "]", between: ", "}
	m.left -= 2
	fewest, most, unique := 0, -1, false
	for _, s := range all {
		fewest = max(fewest, fewestItems(s))
		if s.MaxItems != nil && (most < 0 || *s.MaxItems < most) {
			most = *s.MaxItems
		}
		unique = unique || s.UniqueItems
	}
	seen := map[string]bool{}
	next := func() *piece {
		var goal []*jsonschema.Schema
		for _, s := range all {
			goal = append(goal, itemSchemas(s, len(p.items))...)
		}
		if most >= 0 && len(p.items) >= most || slices.Contains(goal, nothing) || m.schema.forbids(goal) {
			return nil
		}
		for range tries {
			kept := len(m.growers)
			item := m.value(goal, depth+1)
			if !unique {
				return item
			}
			if text := item.String(); !seen[text] {
				seen[text] = true
				return item
			}
			m.growers = m.growers[:kept]
		}
		return nil
	}
	for len(p.items) < fewest && !m.over() {
		item := next()
		if item == nil {
			return m.fail("there are no %d items", fewest)
		}
		p.add(item)
	}
	if depth < deep {
		m.growers = append(m.growers, func(room int) int { return m.more(p, room, next) })
	}
	return p
}

// forbids reports whether one of several schemas has no instance.
func (s *schema) forbids(goal []*jsonschema.Schema) bool {
	return slices.ContainsFunc(goal, func(one *jsonschema.Schema) bool { return s.heights[one] >= never })
}

// text makes a string.
func (m *instances) text(all []*jsonschema.Schema) *piece {
	shortest, longest := 0, -1
	format, pattern := "", ""
	for _, s := range all {
		if s.MinLength != nil {
			shortest = max(shortest, *s.MinLength)
		}
		if s.MaxLength != nil && (longest < 0 || *s.MaxLength < longest) {
			longest = *s.MaxLength
		}
		if s.Format != nil {
			format = s.Format.Name
		}
		if s.Pattern != nil {
			pattern = s.Pattern.String()
		}
	}
	if made, known := m.formatted(format); known {
		return m.leaf(quote(made))
	}
	if pattern != "" {
		return m.patterned(pattern, shortest, longest)
	}
	return m.wordy(`"`, shortest, longest)
}

// patterned makes a string with a match of a regular expression in it.
func (m *instances) patterned(pattern string, shortest, longest int) *piece {
	room := 0
	if !m.short {
		room = 8
	}
	p := m.leaf(quote(m.matching(pattern, room, shortest, longest)))
	m.growers = append(m.growers, func(more int) int {
		made := quote(m.matching(pattern, len(p.text)+more-2, shortest, longest))
		used := len(made) - len(p.text)
		if used <= 0 || used > more {
			return 0
		}
		p.text = made
		return used
	})
	return p
}

// matching returns a text with a match of a regular expression and a number of characters in a range, if there is one.
func (m *instances) matching(pattern string, size, shortest, longest int) string {
	form, err := Regex(pattern)
	if err != nil {
		m.fail("pattern: %v", err)
		return ""
	}
	size = max(size, shortest)
	if longest >= 0 {
		size = min(size, longest)
	}
	text := ""
	for range tries {
		made := m.detached(func(own *instances) *piece { return own.regex(form.(*expression).parsed, 0) }, size)
		if text = made; longest < 0 || len([]rune(made)) <= longest {
			break
		}
	}
	if n := shortest - len([]rune(text)); n > 0 && !strings.HasSuffix(pattern, "$") {
		text += words(min(n, m.left+Slack), m.rng.Uint64())
	}
	return text
}

// formatted makes a string of a named format.
func (m *instances) formatted(format string) (text string, known bool) {
	word := func() string {
		word, _, _ := strings.Cut(words(24, m.rng.Uint64()), " ")
		return word
	}
	n := m.rng.IntN
	date := func() string { return fmt.Sprintf("20%02d-%02d-%02d", 10+n(20), 1+n(12), 1+n(28)) }
	clock := func() string { return fmt.Sprintf("%02d:%02d:%02dZ", n(24), n(60), n(60)) }
	switch format {
	case "date-time":
		return date() + "T" + clock(), true
	case "date":
		return date(), true
	case "time":
		return clock(), true
	case "duration", "period":
		text = fmt.Sprintf("P%dDT%dH%dM", 1+n(9), 1+n(23), 1+n(59))
		if format == "period" {
			text = date() + "T" + clock() + "/" + text
		}
		return text, true
	case "email", "idn-email":
		return word() + "." + word() + "@example.com", true
	case "hostname", "idn-hostname":
		return word() + ".example.com", true
	case "ipv4":
		return fmt.Sprintf("192.0.2.%d", 1+n(254)), true
	case "ipv6":
		return fmt.Sprintf("2001:db8::%x", 1+n(0xfffe)), true
	case "uri", "iri", "uri-reference", "iri-reference", "uri-template":
		return "https://example.com/" + word() + "/" + word(), true
	case "uuid":
		a, b := m.rng.Uint64(), m.rng.Uint64()
		return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff,
			b&0xffffffffffff), true
	case "json-pointer":
		return "/" + word() + "/" + strconv.Itoa(n(10)), true
	case "relative-json-pointer":
		return strconv.Itoa(n(10)) + "/" + word(), true
	case "regex":
		return word() + "[a-z]*", true
	case "semver":
		return fmt.Sprintf("%d.%d.%d", n(10), n(20), n(20)), true
	}
	return "", false
}
