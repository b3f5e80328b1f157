package workload

import (
	"slices"

	"dynosim/gocore/spelling"
)

// Stray is a key that readers ignore, and that is spelled almost like one that they read.
type Stray struct {
	Key   string
	Meant string // the key that was probably meant
	Rows  int
}

// maxStrayKeys bounds the unknown keys that are remembered; those beyond are ignored.
const maxStrayKeys = 1000

// strayKeys counts unknown keys of rows that are near a known one. Keys that another format of rows has are not among
// them.
type strayKeys struct {
	known []string
	seen  map[string]int // by unknown key: its place in found, -1 if it is near nothing
	found []Stray
}

func newStrayKeys(keys map[string]fields) *strayKeys {
	s := &strayKeys{seen: make(map[string]int)}
	for key := range keys {
		s.known = append(s.known, key)
	}
	slices.Sort(s.known)
	return s
}

func (s *strayKeys) record(key []byte) {
	at, seen := s.seen[string(key)]
	if !seen {
		at = s.place(string(key))
	}
	if at >= 0 {
		s.found[at].Rows++
	}
}

// place decides about a key that occurs for the first time.
func (s *strayKeys) place(key string) int {
	if len(s.seen) >= maxStrayKeys {
		return -1
	}
	at := -1
	if _, elsewhere := agenticKeys[key]; !elsewhere {
		if meant := spelling.Nearest(key, s.known); meant != "" {
			at = len(s.found)
			s.found = append(s.found, Stray{Key: key, Meant: meant})
		}
	}
	s.seen[key] = at
	return at
}
