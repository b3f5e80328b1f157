package fieldtable

import (
	"fmt"
	"strings"
)

// Page returns the table of a reference page. Its second last column, where a field works, is left out if all work
// everywhere.
func Page(rows []Row) string {
	title, works := "| field | value | default | works with | meaning |\n|---|---|---|---|---|\n", true
	if !anyWorks(rows) {
		title, works = "| field | value | default | meaning |\n|---|---|---|---|\n", false
	}
	var out strings.Builder
	out.WriteString(title)
	for _, r := range rows {
		cells := []string{"`" + r.Name + "`", r.Want, r.shownDefault()}
		if works {
			cells = append(cells, r.Works)
		}
		meaning := strings.ReplaceAll(strings.ReplaceAll(r.Doc, "``", "`"), "|", "\\|")
		out.WriteString("| " + strings.Join(append(cells, meaning), " | ") + " |\n")
	}
	return out.String()
}

func anyWorks(rows []Row) bool {
	for _, r := range rows {
		if r.Works != "" {
			return true
		}
	}
	return false
}

// shownDefault returns the value of a field that is not given, "" if there is none.
func (r Row) shownDefault() string {
	value := r.Default
	if value == nil {
		value = r.Instead
	}
	if value == nil || value == "" {
		return ""
	}
	return fmt.Sprintf("`%v`", value)
}
