package speculation

// ahead is how many blocks of the key stream are computed at a time, and kept how many are kept until room is needed.
const (
	ahead = 8
	kept  = 64
)

const blockWords = 8

// stream is the draws of a generator, some of which are there before they are asked for, and some that it has given
// already. A draw is 64 bits, two words of the cipher.
//
//	words   |  rest  | block | block | ...          the first ones are left over from the blocks that were here before
//	                     ^ at             ^ end
type stream struct {
	cipher  chacha
	next    int64 // block to be computed
	at, end int   // the next draw, and the end of those that are there
	words   [(1 + kept) * blockWords]uint64
}

func newStream(seed uint64) stream {
	return stream{cipher: newChacha(seed), at: blockWords, end: blockWords}
}

// refill computes the next blocks. Draws that are left come right before them.
func (s *stream) refill() {
	if s.end == len(s.words) {
		left := s.end - s.at
		copy(s.words[blockWords-left:blockWords], s.words[s.at:])
		s.at, s.end = blockWords-left, blockWords
	}
	for range ahead {
		s.cipher.block(uint64(s.next), (*[blockWords]uint64)(s.words[s.end:]))
		s.next++
		s.end += blockWords
	}
}

// Mark is a place in the draws of a worker.
type Mark int64

func (s *stream) mark() Mark { return Mark(s.next*blockWords) - Mark(s.end-s.at) }

// rewind goes back to a place. Draws that are not there any more are computed again.
func (s *stream) rewind(to Mark) {
	if at := s.at - int(s.mark()-to); at >= blockWords {
		s.at = at
		return
	}
	s.next, s.at, s.end = int64(to)/blockWords, blockWords, blockWords
	s.refill()
	s.at += int(to) % blockWords
}
