package spelling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// offered bounds the names that Offer lists, in bytes, so that messages stay short.
	offered = 64
	// longest is the longest key that is compared: a monstrous one is near to nothing.
	longest = 128
)

// Nearest returns the name that was probably meant, "" if none is near: one that differs only in case or separators, or
// in few letters, or of which more than half was typed. Among equally near names the first wins.
func Nearest(typed string, names []string) string {
	if len(typed) > longest {
		return ""
	}
	best, bestDistance := "", allowedDistance(typed)+1
	for _, name := range names {
		if plain(typed) == plain(name) {
			return name
		}
		if d := distance(typed, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return completion(typed, names)
	}
	return best
}

// Offer ends the message about an unknown name: it lists all names if they are few, else their number and the nearest.
func Offer(typed string, names []string) string {
	if all := strings.Join(names, ", "); len(all) <= offered {
		return "want one of " + all
	}
	ranked := slices.Clone(names)
	slices.SortStableFunc(ranked, func(a,
		b string) int {
		return cmp.Compare(remoteness(typed, a), remoteness(typed, b))
	})
	count, length := 1, len(ranked[0])
	for count < 3 && length+len(", ")+len(ranked[count]) <= offered {
		length += len(", ") + len(ranked[count])
		count++
	}
	return fmt.Sprintf("want one of %d, such as %s", len(names), strings.Join(ranked[:count], ", "))
}

// remoteness orders names by distance; those that contain what was typed, or are part of it, come first.
func remoteness(typed, name string) int {
	if len(typed) > longest {
		return 0
	}
	d := distance(typed, name)
	if a, b := plain(typed), plain(name); a != "" && (strings.Contains(a, b) || strings.Contains(b, a)) {
		return d - 1000
	}
	return d
}

// completion returns the shortest name that begins with what was typed, if that is more than half of it.
func completion(typed string, names []string) string {
	best := ""
	for _, name := range names {
		if strings.HasPrefix(name, typed) && 2*len(typed) > len(name) && (best == "" || len(name) < len(best)) {
			best = name
		}
	}
	return best
}

// Ending returns the only name whose last word was typed, as port of http-port, "" if there are none or several.
func Ending(typed string, names []string) string {
	best := ""
	for _, name := range names {
		if typed == "" || !strings.HasSuffix(name, "-"+typed) && !strings.HasSuffix(name, "_"+typed) {
			continue
		}
		if best != "" {
			return ""
		}
		best = name
	}
	return best
}

// plain returns a name without what spellings of it differ in: case and separators.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// allowedDistance grants one slip, and one more per six letters up to three.
func allowedDistance(typed string) int { return min(1+len(typed)/6, 3) }

// distance returns the Levenshtein distance in bytes: the fewest insertions, deletions and replacements
// that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from a[:i] to every prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
