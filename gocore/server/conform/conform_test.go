package conform

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// schemas are what clients send, and what is hard to fulfil. Texts of those that can grow have any size.
var schemas = []struct {
	text  string
	grows bool
}{
	{`{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", ` +
		`"age"], "additionalProperties": false}`, true},
	{`{"type": "array", "items": {"type": "string"}}`, true},
	{`{"type": "object"}`, true},
	{`true`, true},
	{`{}`, true},
	{`{"type": "string", "minLength": 5, "maxLength": 12}`, false},
	{`{"type": "integer", "minimum": 3, "exclusiveMaximum": 5}`, false},
	{`{"type": "number", "exclusiveMinimum": 0, "maximum": 0.001}`, false},
	{`{"type": "number", "multipleOf": 0.25, "minimum": -3, "maximum": -1}`, false},
	{`{"type": "integer", "multipleOf": 1.5, "minimum": 10}`, false},
	{`{"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer", "minimum": 1, "maximum": 12}`, false},
	{`{"const": {"a": [1, 2.50, null, "<é>"]}}`, false},
	{`{"enum": ["a", 3, null], "type": ["string", "null"]}`, false},
	{`{"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "b": {"enum": ["x", ` +
		`"y"]}}, "required": ["b"]}`, false},
	{`{"$defs": {"node": {"type": "object", "properties": {"value": {"type": "string"}, ` +
		`"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"], ` +
		`"additionalProperties": false}}, "$ref": "#/$defs/node"}`, true},
	{`{"$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, ` +
		`"right": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}}, "$ref": "#/$defs/tree"}`, false},
	{`{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false, "minItems": 2}`,
		true},
	{`{"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [{"type": "integer"}, ` +
		`{"type": "string"}], "additionalItems": {"type": "boolean"}, "minItems": 3}`, true},
	{`{"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 6}, "uniqueItems": true, "minItems": 5}`,
		false},
	{`{"type": "array", "contains": {"const": 7}, "minContains": 2, "items": {"type": "integer"}}`, false},
	{`{"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"}`, false},
	{`{"type": "string", "pattern": "^\\+?[0-9 ]+$", "minLength": 9, "maxLength": 15}`, false},
	{`{"type": "string", "pattern": "ab+c"}`, true},
	{`{"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"pattern": "^[a-z]{3}$"}, ` +
		`"minProperties": 2}`, false},
	{`{"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "boolean"}}, "additionalProperties": false, ` +
		`"minProperties": 1}`, false},
	{`{"oneOf": [{"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, ` +
		`"required": ["kind", "lives"]}, {"type": "object", "properties": {"kind": {"const": "dog"}, ` +
		`"bark": {"type": "string"}}, "required": ["kind", "bark"]}]}`, false},
	{`{"type": "integer", "minimum": 0, "maximum": 9, "not": {"enum": [0, 1, 2]}}`, false},
	{`{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "string"}}, "required": ["a"], ` +
		`"if": {"properties": {"a": {"const": true}}}, "then": {"required": ["b"]}}`, false},
	{`{"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, ` +
		`{"properties": {"b": {"type": "string"}}, "required": ["b"]}], "type": "object", "unevaluatedProperties": false}`,
		true},
	{`{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}}, ` +
		`"minProperties": 2, "maxProperties": 2}`, false},
	{`{"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}, "who": {"type": "string", ` +
		`"format": "email"}, "id": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "uri"}, ` +
		`"ip": {"type": "string", "format": "ipv4"}, "t": {"type": "string", "format": "time"}}, "required": ["when", ` +
		`"who", "id", "at", "ip", "t"]}`, false},
	{`{"type": "object", "properties": {"z": {"type": "string"}, "a b/c~é\"": {"type": "string"}, ` +
		`"m": {"type": "string"}}, "required": ["m", "z", "a b/c~é\""]}`, true},
}

func TestSchemas(t *testing.T) {
	for _, c := range schemas {
		form, err := Schema([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		different := map[string]bool{}
		for seed := range uint64(20) {
			for _, size := range []int{1, 40, 700} {
				text, whole, err := form.Text(seed, size)
				if err != nil || !whole {
					t.Errorf("%s: %q, %v", c.text, text, err)
					break
				}
				if err := form.(*schema).check(text); err != nil {
					t.Errorf("%s: %s: %v", c.text, text, err)
				}
				if c.grows && size == 700 && len(text) != size {
					t.Errorf("%s: %d bytes, want %d: %s", c.text, len(text), size, text)
				}
				if again, _, _ := form.Text(seed, size); again != text {
					t.Errorf("%s: %s and %s from the same seed", c.text, text, again)
				}
				different[text] = true
			}
		}
		if len(different) < 2 && !strings.Contains(c.text, `"const": {`) && !strings.Contains(c.text, `"maximum": 12`) {
			t.Errorf("%s: always %v", c.text, different)
		}
	}
}

func TestPropertiesHaveTheOrderOfTheSchema(t *testing.T) {
	form, err := Schema([]byte(schemas[len(schemas)-1].text))
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := form.Text(1, 10)
	if err != nil || !regexp.MustCompile(`^\{"z": .*"a b/c~é\\"": .*"m": `).MatchString(text) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestBrokenSchemas(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"type": "objekt"}`, "at '/type': value must be one of"},
		{`{"$ref": "file:///etc/hosts"}`, "file:///etc/hosts is another document"},
		{`{"$ref": "other.json"}`, "other.json is another document"},
		{`{"$ref": "#/$defs/no"}`, "not found"},
		{`{"type": "string", "pattern": "(?=a)b"}`, "invalid or unsupported Perl syntax"},
		{`3`, "got number, want boolean or object"},
		{`{"a": 1, "a": 2}`, "no JSON"},
		{`{`, "no JSON"},
		{`{"maximum": 1e999999}`, "want one that a double-precision number can hold"},
		{`false`, "nothing conforms"},
		{`{"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}, "$ref": "#/$defs/a"}`,
			"nothing conforms"},
		{`{"$ref": "#"}`, "nothing conforms"},
		{strings.Repeat(`{"not": `, 300) + `{}` + strings.Repeat(`}`, 300), "nested deeper"},
		{`{"title": "` + strings.Repeat("x", maxSchema) + `"}`, "want at most"},
	} {
		if _, err := Schema([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.80s: %v, want %s", test.text, err, test.want)
		}
	}
}

// TestWithoutInstances: that nothing conforms may show only when a text is wanted.
func TestWithoutInstances(t *testing.T) {
	for _, text := range []string{
		`{"type": "string", "not": {}}`,
		`{"type": "integer", "minimum": 3, "maximum": 2}`,
		`{"allOf": [{"type": "string"}, {"type": "integer"}]}`,
		`{"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 3}`,
		`{"type": "object", "required": ["a"], "additionalProperties": false}`,
	} {
		form, err := Schema([]byte(text))
		if err == nil {
			_, _, err = form.Text(1, 100)
		}
		if err == nil {
			t.Errorf("%s has an instance", text)
		}
	}
}

// TestLarge: what would have to be longer than anybody has asked for is given up.
func TestLarge(t *testing.T) {
	bomb := `{"$defs": {"a0": {"type": "string", "minLength": 10}`
	for i := range 40 {
		from, to := "a"+string(rune('0'+i)), "a"+string(rune('0'+i+1))
		bomb += `, "` + to + `": {"type": "array", "items": {"$ref": "#/$defs/` + from + `"}, "minItems": 9}`
	}
	bomb += `}, "$ref": "#/$defs/a` + string(rune('0'+40)) + `"}`
	for _, text := range []string{
		`{"type": "string", "minLength": 1000000000}`,
		`{"type": "array", "minItems": 1000000000, "items": {"type": "integer"}}`,
		`{"type": "object", "minProperties": 1000000000}`,
		strings.ReplaceAll(bomb, "~", ""),
	} {
		form, err := Schema([]byte(text))
		if err != nil {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		made, whole, err := form.Text(1, 100)
		if err != nil || whole || len(made) < Slack/2 {
			t.Errorf("%.80s: %d bytes, %v, %v", text, len(made), whole, err)
		}
	}
}

func TestRegex(t *testing.T) {
	for pattern, grows := range map[string]bool{
		`[a-z]+`: true, `\d{3}-\d{4}`: false, `(yes|no)`: false, `^https?://[^/\s]+/$`: true,
		`(?i)hello( world)*`: true,
		`\w+@\w+\.com`:       true, `.*`: true, `(\d{1,3}\.){3}\d{1,3}`: false, `[^a-z]`: false, `\p{Greek}{2,}`: true,
		`a?b*c{2,5}`: true,
		`\bword\b`:   false, `((a*)*)*x`: true, `[\x{1F600}-\x{1F64F}]{3}`: false, `\s+`: true, `[]-^]+`: true,
	} {
		form, err := Regex(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
		for seed := range uint64(20) {
			text, complete, err := form.Text(seed, 200)
			if err != nil || !complete || !whole.MatchString(text) || !utf8.ValidString(text) {
				t.Errorf("%s: %q, %v", pattern, text, err)
			}
			if grows && pattern != `(?i)hello( world)*` && len(text) < 199 {
				t.Errorf("%s: %d bytes, want 200: %q", pattern, len(text), text)
			}
		}
	}
	for _, pattern := range []string{"", "(", `(?=a)`, `a{2000}`, strings.Repeat("a", maxRegex+1), `a\bb`} {
		form, err := Regex(pattern)
		if err == nil {
			_, _, err = form.Text(1, 10)
		}
		if err == nil {
			t.Errorf("%.40q has a text", pattern)
		}
	}
}

func TestChoice(t *testing.T) {
	list := []string{"red", "green", "blue"}
	form, err := Choice(list)
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	for seed := range uint64(300) {
		text, _, _ := form.Text(seed, 5)
		drawn[text]++
	}
	for _, text := range list {
		if drawn[text] < 50 {
			t.Errorf("%s: %d times of 300", text, drawn[text])
		}
	}
	for _, wrong := range [][]string{nil, {""}, make([]string, maxChoices+1)} {
		if _, err := Choice(wrong); err == nil {
			t.Errorf("%d choices are accepted", len(wrong))
		}
	}
}

// FuzzSchema: whatever a schema says, what is made conforms, or there is an error.
func FuzzSchema(f *testing.F) {
	for _, c := range schemas {
		f.Add(c.text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		form, err := Schema([]byte(text))
		if err != nil {
			return
		}
		size := rand.New(rand.NewPCG(seed, 0)).IntN(300)
		made, whole, err := form.Text(seed, size)
		if err == nil && whole {
			if err := form.(*schema).check(made); err != nil {
				t.Errorf("%s: %v", made, err)
			}
		}
	})
}

func BenchmarkSchema(b *testing.B) {
	for b.Loop() {
		form, err := Schema([]byte(schemas[0].text))
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := form.Text(1, 200); err != nil {
			b.Fatal(err)
		}
	}
}
