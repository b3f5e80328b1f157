package strictjson

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// testFields has one field of every type.
var testFields = []Field{
	{Name: "count", Type: Integer{Min: 1}, Default: 7, NotNull: true},
	{Name: "port", Type: Integer{Max: 65535}},
	{Name: "seed", Type: Integer{Max: math.MaxUint64}},
	{Name: "ratio", Type: Number{MinOpen: true}, Default: 1.5},
	{Name: "share", Type: Number{Max: 1, MaxOpen: true}},
	{Name: "part", Type: Number{Max: 1}},
	{Name: "flag", Type: Bool{}, Default: true},
	{Name: "name", Type: Text{NonEmpty: true}},
	{Name: "files", Type: List{}},
	{Name: "mode", Type: Enum{Choices: []string{"fast", "slow"}}, Default: "fast"},
	{Name: "style", Type: Enum{Choices: []string{"bold"}, FoldCase: true}},
	{Name: "inner", Type: Nested{Fields: []Field{
		{Name: "size", Type: Integer{Min: 1}},
		{Name: "weight", Type: Number{}, Required: true, NotNull: true},
	}}},
	{Name: "extra", Type: Any{}},
}

func TestRefusals(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", `line 1 column 1: unexpected end of text`},
		{"blank", " \n ", `line 2 column 2: unexpected end of text`},
		{"unfinished", `{"count": 1`, `line 1 column 12: unexpected end of text`},
		{"unfinished key", `{"cou`, `line 1 column 6: unexpected end of text`},
		{"bad value", "{\n  \"count\": x}", `line 2 column 12: invalid character 'x' at start of value`},
		{"column counts characters", `{"name": "é", x}`, `line 1 column 15: invalid character 'x' at start of value`},
		{"comma at the end", `{"count": 1,}`, `line 1 column 12: unexpected comma`},
		{"NaN", `{"ratio": NaN}`, `line 1 column 11: invalid character 'N' at start of value`},
		{"nul", `{"ratio": nul}`, `line 1 column 14: invalid character '}' in literal null (expecting 'l')`},
		{"not UTF-8", "{\"name\": \"\xff\"}", `line 1 column 11: invalid UTF-8`},
		{"not a pair", `{"name": "\ud800"}`, "line 1 column 11: invalid surrogate pair `\\ud800\"}` in string"},
		{"trailing value", `{"count": 1} true`, `line 1 column 14: unexpected text after the object`},
		{"trailing garbage", "{}\n}", `line 2 column 1: unexpected text after the object`},
		{"list", "[ 1,\n 2 ]", `got [1,2], want a JSON object`},
		{"null", "null", `got null, want a JSON object`},

		{"duplicate", `{"count": 1, "count": 1}`, `count: got a duplicate key, want the key once`},
		{"duplicate null", `{"port": null, "port": null}`, `port: got a duplicate key, want the key once`},
		{"duplicate inside", `{"inner": {"size": 1, "size": 2}}`, `inner.size: got a duplicate key, want the key once`},
		{"nearest", `{"coumt": 1}`, `unknown field "coumt", did you mean "count"?`},
		{"nearest inside", `{"inner": {"sizes": 1}}`, `unknown field "inner.sizes", did you mean "inner.size"?`},
		{"nothing near", `{"weight": 1}`, `unknown field "weight", want one of 13, such as count, port, seed`},
		{"nothing near inside", `{"inner": {"x": 1}}`, `unknown field "inner.x", want one of size, weight`},
		{"key with a line break", "{\"inner\": {\"a\\nb\": 1}}",
			`unknown field "inner.a\nb", want one of size, weight`},

		{"float for an integer", `{"count": 16.0}`, `count: got 16.0, want an integer >= 1`},
		{"exponent for an integer", `{"count": 1e1}`, `count: got 1e1, want an integer >= 1`},
		{"string for an integer", `{"count": "16"}`, `count: got "16", want an integer >= 1`},
		{"string for a number", `{"ratio": "1"}`, `ratio: got "1", want a finite number > 0`},
		{"nan without leave", `{"ratio": "nan"}`, `ratio: got "nan", want a finite number > 0`},
		{"integer for a bool", `{"flag": 1}`, `flag: got 1, want true or false`},
		{"bool for a string", `{"name": true}`, `name: got true, want a string that is not empty`},
		{"integer for a word", `{"mode": 1}`, `mode: got 1, want one of fast, slow`},
		{"string for a list", `{"files": "a"}`, `files: got "a", want a list of strings`},
		{"mixed list", `{"files": ["a", 1]}`, `files: got ["a",1], want a list of strings`},
		{"list for an object", `{"inner": [ ]}`, `inner: got [], want an object`},
		{"object for an integer", "{\"count\": {\n}}", `count: got {}, want an integer >= 1`},
		{"long value", `{"count": "` + strings.Repeat("é", 100) + `"}`, `count: got "` + strings.Repeat("é", 59) +
			`..., want an integer >= 1`},

		{"null", `{"count": null}`, `count: got null, want an integer >= 1`},
		{"null inside", `{"inner": {"weight": null}}`, `inner.weight: got null, want a finite number >= 0`},
		{"missing inside", `{"inner": {}}`, `inner.weight: got nothing, want a finite number >= 0`},
		{"word", `{"mode": "Fast"}`, `mode: got "Fast", want one of fast, slow`},

		{"zero", `{"count": 0}`, `count: got 0, want an integer >= 1`},
		{"negative", `{"count": -1}`, `count: got -1, want an integer >= 1`},
		{"negative zero", `{"port": -0}`, `port: got -0, want an integer from 0 to 65535`},
		{"above the limit", `{"port": 65536}`, `port: got 65536, want an integer from 0 to 65535`},
		{"above int", `{"count": 9223372036854775808}`,
			`count: got 9223372036854775808, want an integer from 1 to 9223372036854775807`},
		{"above uint64", `{"seed": 18446744073709551616}`,
			`seed: got 18446744073709551616, want an integer from 0 to 18446744073709551615`},
		{"open minimum", `{"ratio": 0}`, `ratio: got 0, want a finite number > 0`},
		{"open maximum", `{"share": 1.0}`, `share: got 1.0, want a finite number >= 0 and < 1`},
		{"closed interval", `{"part": 1.01}`, `part: got 1.01, want a finite number from 0 to 1`},
		{"above double", `{"ratio": 1e400}`, `ratio: got 1e400, want a finite number > 0`},
		{"empty string", `{"name": ""}`, `name: got "", want a string that is not empty`},
		{"all ranges", `{"part": -1, "inner": {"weight": -2, "size": 0}, "count": 0}`,
			`count: got 0, want an integer >= 1; part: got -1, want a finite number from 0 to 1; ` +
				`inner.size: got 0, want an integer >= 1; inner.weight: got -2, want a finite number >= 0`},
		{"type before range", `{"count": 0, "flag": 1}`, `flag: got 1, want true or false`},
		{"null before range", `{"port": -1, "count": null}`, `count: got null, want an integer >= 1`},
		{"first in the text", `{"flag": 1, "count": "x"}`, `flag: got 1, want true or false`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, err := Decode(test.in, Schema{Fields: testFields})
			if err == nil {
				err = Join(o.RangeErrors())
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if err.Error() != test.want {
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
		})
	}
}

func TestValues(t *testing.T) {
	o := mustDecode(t, Schema{Fields: testFields},
		` {"count": 9223372036854775807, "seed": 18446744073709551615, "port": null,
		"ratio": 3, "part": 1, "flag": false, "name": "a\u00e9\"", "files": ["x", "", "y"], "mode": "slow",
			"style": "BOLD",
		"inner": {"weight": 0.1}, "extra": {"a": [1, {}], "a": 2}} `)
	checks := []struct {
		name string
		ok   bool
	}{
		{"largest int", o.Int("count") == math.MaxInt},
		{"null is not given", o.Null("port") && !o.Given("port") && o.Int("port") == 0},
		{"integer literal as a number", o.Float("ratio") == 3 && o.Given("ratio")},
		{"false is given", !o.Bool("flag") && o.Given("flag")},
		{"absent", !o.Given("share") && !o.Null("share") && o.Shown("share") == ""},
		{"escapes", o.Text("name") == `aé"` && o.Shown("name") == `"a\u00e9\""`},
		{"list", slices.Equal(o.List("files"), []string{"x", "", "y"})},
		{"word", o.Text("mode") == "slow"},
		{"word in the spelling of the schema", o.Text("style") == "bold" && o.Shown("style") == `"BOLD"`},
		{"nested", o.Object("inner").Float("weight") == 0.1 && !o.Object("inner").Given("size")},
		{"anything", o.Given("extra")},
	}
	for _, check := range checks {
		if !check.ok {
			t.Errorf("%s: wrong", check.name)
		}
	}
}

func TestDefaults(t *testing.T) {
	o := mustDecode(t, Schema{Fields: testFields}, `{"ratio": null}`)
	if o.Int("count") != 7 || o.Float("ratio") != 1.5 || !o.Bool("flag") || o.Text("mode") != "fast" {
		t.Error("a default is lost")
	}
	if o.Int("port") != 0 || o.Float("share") != 0 || o.Text("name") != "" || o.List("files") != nil ||
		o.Object("inner") != nil {
		t.Error("a field without default is not zero")
	}
}

func TestAtDefault(t *testing.T) {
	tests := []struct {
		in, field string
		want      bool
	}{
		{`{}`, "count", true},
		{`{"count": 7}`, "count", true},
		{`{"count": 8}`, "count", false},
		{`{"ratio": null}`, "ratio", true},
		{`{"ratio": 15e-1}`, "ratio", true},
		{`{"ratio": 2}`, "ratio", false},
		{`{"flag": true}`, "flag", true},
		{`{"mode": "slow"}`, "mode", false},
		{`{"name": "x"}`, "name", false},
		{`{"files": []}`, "files", false},
		{`{"inner": {"weight": 1}}`, "inner", false},
		{`{"extra": 1}`, "extra", false},
	}
	for _, test := range tests {
		if got := mustDecode(t, Schema{Fields: testFields}, test.in).AtDefault(test.field); got != test.want {
			t.Errorf("%s: %s at default: got %v", test.in, test.field, got)
		}
	}
}

func TestNonFinite(t *testing.T) {
	schema := Schema{Fields: testFields, NonFinite: true}
	o := mustDecode(t, schema, `{"ratio": "nan", "share": "inf", "part": "-inf", "inner": {"weight": "nan"}}`)
	const want = "ratio: got nan, want a finite number > 0; share: got inf, want a finite number >= 0 and < 1; " +
		"part: got -inf, want a finite number from 0 to 1; inner.weight: got nan, want a finite number >= 0"
	if err := Join(o.RangeErrors()); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := Decode(`{"ratio": "NaN"}`, schema); err == nil {
		t.Error(`"NaN" counts as a number`)
	}
	if _, err := Decode(`{"count": "nan"}`, schema); err == nil || err.Error() != `count: got nan, want an integer >= 1` {
		t.Errorf("nan for an integer: %v", err)
	}
}

func TestErrorTypes(t *testing.T) {
	var syntax *SyntaxError
	if _, err := Decode("{", Schema{}); !errors.As(err, &syntax) || syntax.Line != 1 || syntax.Column != 2 {
		t.Errorf("no SyntaxError: %v", err)
	}
	var unknown *UnknownFieldError
	if _, err := Decode(`{"ports": 1}`, Schema{Fields: testFields}); !errors.As(err, &unknown) ||
		unknown.Nearest != "port" {
		t.Errorf("no UnknownFieldError: %v", err)
	}
	o := mustDecode(t, Schema{Fields: testFields}, `{"count": 0, "port": -1}`)
	var field *FieldError
	err := Join(o.RangeErrors())
	if !errors.As(err, &field) || *field != (FieldError{Field: "count", Got: "0", Want: "an integer >= 1"}) {
		t.Errorf("no FieldError: %v", err)
	}
	notBuilt := &NotBuiltError{Field: "mode", Value: `"x"`}
	if err := Join([]error{field, notBuilt}); !errors.Is(err, notBuilt) || Join(nil) != nil {
		t.Error("Join hides its parts")
	}
	if got := (&NotBuiltError{Field: "mode", Value: `"x"`, Feature: "the x"}).Error(); got != `mode: `+
		`"x" is not built yet (the x)` {
		t.Error(got)
	}
}

func TestProgramMistakes(t *testing.T) {
	o := mustDecode(t, Schema{Fields: testFields}, `{"count": 1, "seed": 9223372036854775808}`)
	for name, mistake := range map[string]func(){
		"unknown name": func() { o.Int("nothing") },
		"other type":   func() { o.Text("count") },
		"above int":    func() { o.Int("seed") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			mistake()
		}()
	}
}

func mustDecode(t *testing.T, schema Schema, text string) *Object {
	t.Helper()
	o, err := Decode(text, schema)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
