package policies

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/fieldtable"
	"dynosim/gocore/strictjson"
)

//go:generate go test . -run ^TestGenerated -rewrite

func rowsOf(fields []strictjson.Field) []fieldtable.Row {
	rows := make([]fieldtable.Row, len(fields))
	for i, f := range fields {
		rows[i] = fieldtable.Of(f)
	}
	return rows
}

// TestGeneratedTable keeps the table from which sweeps know the settings.
func TestGeneratedTable(t *testing.T) {
	var fields []strictjson.Field
	known := map[string]bool{}
	var modes []string
	for _, p := range table {
		var names []string
		for _, f := range p.settings() {
			names = append(names, fmt.Sprintf("%q", f.Name))
			if !known[f.Name] {
				known[f.Name] = true
				fields = append(fields, f)
			}
		}
		modes = append(modes, fmt.Sprintf("    %q: [%s]", p.name, strings.Join(names, ", ")))
	}
	list, err := fieldtable.List(rowsOf(fields), "  ")
	if err != nil {
		t.Fatal(err)
	}
	fieldtable.Keep(t, "../../../python/dynamo/_core/routing_modes_generated.json",
		"{\n  \"fields\": "+list+",\n  \"modes\": {\n"+strings.Join(modes, ",\n")+"\n  }\n}\n")
}

const pageHead = `# Routing modes

<!-- Code generated from gocore/router/policies/table.go by go generate ./gocore/router/policies. DO NOT EDIT. -->

` + "`--router-mode`" + ` takes ` + "`round_robin`" + `, ` + "`kv_router`" +
	` ([its settings](router.md)) and the modes of this page, whose settings are the keys
of ` + "`--router-config`" + `, a JSON object or ` + "`@FILE`" +
	`. A key that a mode does not have is refused. [Routers](../routers.md) says
which routers of the field these are, and how far they agree with them.

| mode | which worker gets a request |
|---|---|
`

const commonHead = `
## Settings of every mode of this page

They say what a router sees.

`

// TestGeneratedPage keeps docs/reference/routing-modes.md.
func TestGeneratedPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(pageHead)
	for _, p := range table {
		fmt.Fprintf(&page, "| `%s` | %s |\n", p.name, p.doc)
	}
	page.WriteString(commonHead + fieldtable.Page(rowsOf(common)))
	for _, p := range table {
		if len(p.own) > 0 {
			fmt.Fprintf(&page, "\n## %s\n\n%s", p.name, fieldtable.Page(rowsOf(p.own)))
		}
	}
	fieldtable.Keep(t, "../../../docs/reference/routing-modes.md", page.String())
}
