package workload

// stretches is a list that grows without being copied: lists with millions of entries would take their memory twice.
// The zero value is empty.
type stretches[T any] struct {
	parts [][]T // all but the last one are full
}

// stretchLength is the number of entries of a part, a power of two.
const stretchLength = 1 << 14

func (s *stretches[T]) len() int {
	last := len(s.parts) - 1
	if last < 0 {
		return 0
	}
	return last*stretchLength + len(s.parts[last])
}

func (s *stretches[T]) add(x T) {
	last := len(s.parts) - 1
	if last < 0 || len(s.parts[last]) == stretchLength {
		size := stretchLength
		if last < 0 {
			size = 0 // short traces take little
		}
		s.parts = append(s.parts, make([]T, 0, size))
		last++
	}
	s.parts[last] = append(s.parts[last], x)
}

// at returns entry i, which must exist.
func (s *stretches[T]) at(i uint32) *T { return &s.parts[i/stretchLength][i%stretchLength] }
