package strictjson

// nearest returns the name that was probably meant, "" if none is near. Among equally near names the first wins.
func nearest(typed string, names []string) string {
	best, bestDistance := "", allowedDistance(typed)+1
	for _, name := range names {
		// The difference in length is a lower bound; it also keeps a monstrous key cheap.
		if abs(len(name)-len(typed)) >= bestDistance {
			continue
		}
		if d := distance(typed, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// allowedDistance grants one slip, and one more per six letters up to three.
func allowedDistance(typed string) int { return min(1+len(typed)/6, 3) }

// distance is the Levenshtein distance in bytes: the fewest insertions, deletions and replacements
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

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
