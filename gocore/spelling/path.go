package spelling

import (
	"strconv"
	"strings"
	"unicode"
)

// Path returns a path as messages show it: on one line, and visible even if it is empty.
func Path(path string) string {
	if path == "" || strings.ContainsFunc(path, unicode.IsControl) {
		return strconv.Quote(path)
	}
	return path
}
