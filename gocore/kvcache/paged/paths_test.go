package paged

import (
	"strings"

	"dynosim/gocore/kvcache"
)

// The tests name a block by its path: ABC is block C behind B behind A. Its id packs the letters, five bits each, so
// that the parent of a block can be read off its id. A dot is a partial block.

func pathID(path string) kvcache.BlockID {
	id := kvcache.BlockID(0)
	for _, letter := range path {
		id = id<<5 | kvcache.BlockID(letter-'A'+1)
	}
	return id
}

func pathOf(id kvcache.BlockID) string {
	if id == Partial {
		return "."
	}
	if id >= kvcache.PrivateIDs {
		return "private-" + pathOf(id-kvcache.PrivateIDs)
	}
	path := ""
	for ; id != 0; id >>= 5 {
		path = string(rune('A'-1+id&31)) + path
	}
	return path
}

func pathsOf(ids []kvcache.BlockID) string {
	var paths []string
	for _, id := range ids {
		paths = append(paths, pathOf(id))
	}
	return strings.Join(paths, " ")
}

// blocksAlong lists the blocks of a path: A AB ABC for ABC, or A B C, each a root of its own, without prefix caching.
func blocksAlong(path string, prefixCaching bool) []kvcache.BlockID {
	var blocks []kvcache.BlockID
	for i := range path {
		switch {
		case path[i] == '.':
			blocks = append(blocks, Partial)
		case prefixCaching:
			blocks = append(blocks, pathID(path[:i+1]))
		default:
			blocks = append(blocks, pathID(path[i:i+1]))
		}
	}
	return blocks
}

// noParent is what parentOf says of a root. No block has this id in the tests.
const noParent kvcache.BlockID = 0

func parentOf(id kvcache.BlockID) kvcache.BlockID {
	if id >= kvcache.PrivateIDs {
		return noParent
	}
	return id >> 5
}
