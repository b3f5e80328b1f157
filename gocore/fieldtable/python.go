package fieldtable

import (
	"fmt"
	"strings"
)

// lineWidth is the longest line of Python code, for ruff format.
const lineWidth = 120

// Wrap breaks text into lines of the usual width, the first of which begins with indent and the others with more.
func Wrap(text, indent, more string) string {
	var lines []string
	line := indent
	for i, word := range strings.Fields(text) {
		if i > 0 && len(line)+1+len(word) > lineWidth {
			lines = append(lines, line)
			line = more + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

// Camel returns a name like max_num_seqs as that of a type: MaxNumSeqs.
func Camel(name string) string {
	var words strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		words.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return words.String()
}

// Literal returns an alias for one of some words, as ruff formats it.
func Literal(name string, choices []string) string {
	quoted := make([]string, len(choices))
	for i, c := range choices {
		quoted[i] = fmt.Sprintf("%q", c)
	}
	if line := fmt.Sprintf("%s: TypeAlias = Literal[%s]\n", name,
		strings.Join(quoted, ", ")); len(line) <= lineWidth+1 {
		return line
	}
	return fmt.Sprintf("%s: TypeAlias = Literal[\n    %s,\n]\n", name, strings.Join(quoted, ",\n    "))
}

// Literals returns the aliases for the choices among some fields.
func Literals(rows []Row) string {
	var out strings.Builder
	for _, r := range rows {
		if r.Type == "enum" && !r.JSONOnly {
			out.WriteString(Literal(Camel(r.Name), r.Choices))
		}
	}
	return out.String()
}

const argsTitle = "    Args:\n"

// Args returns the content of the section "Args:" of a docstring.
func Args(rows []Row) string {
	var out strings.Builder
	for _, r := range rows {
		if r.JSONOnly {
			continue
		}
		text := r.Name + ": " + r.Doc
		if r.Default == nil && r.Instead != nil {
			text += " Default: " + pythonValue(r.Instead) + "."
		}
		if r.Works != "" {
			text += " Works with " + strings.ReplaceAll(r.Works, "`", "``") + "."
		}
		out.WriteString(Wrap(text, "        ", "            "))
	}
	return out.String()
}

// pythonValue returns a default as a docstring shows it.
func pythonValue(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("``%q``", v)
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	default:
		return fmt.Sprint(v)
	}
}

// TypedDict returns the class of dicts with these fields. All may be left out unless every one is required: a dict that
// lacks one of some is refused by Go.
func TypedDict(name, doc string, rows []Row) string {
	var out strings.Builder
	total := ""
	for _, r := range rows {
		if !r.Required {
			total = ", total=False"
		}
	}
	fmt.Fprintf(&out, "\n\nclass %s(TypedDict%s):\n    \"\"\"%s\"\"\"\n\n", name, total, doc)
	for _, r := range rows {
		if !r.JSONOnly {
			fmt.Fprintf(&out, "    %s: %s\n", r.Name, r.hint())
		}
	}
	return out.String()
}

// hint returns the Python type of a field.
func (r Row) hint() string {
	hint := map[string]string{"uint": "int", "float": "float", "bool": "bool", "string": "str",
		"objects": "Sequence[Mapping[str, Any]]"}[r.Type]
	switch {
	case r.Type == "enum":
		hint = Camel(r.Name)
	case r.Type == "object":
		hint = r.Class + " | " + r.Hints + " | Mapping[str, Any]"
	case r.Path:
		hint = "str | os.PathLike[str]"
	}
	if r.Nullable {
		hint += " | None"
	}
	return hint
}

// NestedClass returns the class of the objects in one field, together with that of dicts in their place. doc is its
// first sentence.
func NestedClass(of Row, doc string, rows []Row) string {
	var out strings.Builder
	out.WriteString(TypedDict(of.Hints, "The fields of "+of.Class+", for a dict in its place.", rows))
	fmt.Fprintf(&out, "\n\nclass %s(FieldSet):\n    \"\"\"%s\n\n%s%s\n", of.Class, doc, argsTitle, Args(rows))
	fmt.Fprintf(&out, "    Raises TypeError for a wrong type, ValueError for a value out of range.\n    \"\"\"\n\n"+
		"    __slots__ = ()\n    _section: ClassVar[str] = %q\n\n    def __init__(\n        self,\n", of.Name)
	given, keywords := "        given = {\n", false
	passed := "given"
	for _, r := range rows {
		if r.KeywordOnly && !keywords {
			keywords = true
			out.WriteString("        *,\n")
		}
		byDefault := ""
		if r.Nullable {
			byDefault, passed = " = None", "{name: value for name, value in given.items() if value is not None}"
		}
		fmt.Fprintf(&out, "        %s: %s%s,\n", r.Name, r.hint(), byDefault)
		given += fmt.Sprintf("            %q: %s,\n", r.Name, r.Name)
	}
	out.WriteString("    ) -> None:\n" + given + "        }\n        super().__init__(" + passed + ")\n")
	return out.String()
}
