package workload

import "math/bits"

// chunkPaths numbers the chunks of prompts as an interner does that is given the same prompts, and remembers each
// prompt in a few bytes. Chunks get their numbers in order of appearance, so most have the number after that of the
// chunk before them. A run is such chunks, as many as there are, and a prompt is a path through runs, known by its last
// chunk:
//
//	prompts 0-1-2-3, 0-1-4-5, 0-1-2-3-6      runs   0: 0 1 2 3   1: 4 5 (after 1)   2: 6 (after 3)
//
// What the chunks contain is needed only as long as prompts are added.
type chunkPaths struct {
	contents stretches[uint32] // by chunk
	runs     stretches[chunkRun]
	index    []uint32 // 1 + number of a run, 0 = empty; hashed by what the run begins with. At most 3/4 are used
	chunks   uint32
}

// chunkRun begins with the chunk first and ends before that of the next run.
type chunkRun struct {
	first  uint32
	before chunkPlace // of the chunk before first
}

// chunkPlace is a chunk and its run.
type chunkPlace struct{ chunk, run uint32 }

// beforeAll is the place before the first chunk of a prompt.
var beforeAll = chunkPlace{^uint32(0), ^uint32(0)}

// maxPathChunks is how many chunks there may be: no place is beforeAll.
const maxPathChunks = 1<<32 - 2

// next finds or makes the chunk with this content that follows the one at a place.
func (p *chunkPaths) next(at chunkPlace, content uint32) chunkPlace {
	if at != beforeAll && at.chunk < p.last(at.run) && *p.contents.at(at.chunk + 1) == content {
		return chunkPlace{at.chunk + 1, at.run}
	}
	if found, ok := p.find(at, content); ok {
		return found
	}
	chunk := p.chunks
	p.chunks++
	p.contents.add(content)
	if at != beforeAll && at.chunk+1 == chunk && int(at.run) == p.runs.len()-1 {
		return chunkPlace{chunk, at.run}
	}
	run := uint32(p.runs.len())
	p.runs.add(chunkRun{first: chunk, before: at})
	if 4*int(run+1) > 3*len(p.index) {
		p.grow()
	} else {
		p.enter(run)
	}
	return chunkPlace{chunk, run}
}

// last returns the last chunk of a run.
func (p *chunkPaths) last(run uint32) uint32 {
	if int(run)+1 < p.runs.len() {
		return p.runs.at(run+1).first - 1
	}
	return p.chunks - 1
}

// find looks for the run that begins after a place with this content.
func (p *chunkPaths) find(at chunkPlace, content uint32) (found chunkPlace, ok bool) {
	if len(p.index) == 0 {
		return chunkPlace{}, false
	}
	for i := p.home(at.chunk, content); ; i = (i + 1) & (len(p.index) - 1) {
		run := p.index[i]
		if run == 0 {
			return chunkPlace{}, false
		}
		if r := p.runs.at(run - 1); r.before == at && *p.contents.at(r.first) == content {
			return chunkPlace{r.first, run - 1}, true
		}
	}
}

func (p *chunkPaths) enter(run uint32) {
	r := p.runs.at(run)
	i := p.home(r.before.chunk, *p.contents.at(r.first))
	for p.index[i] != 0 {
		i = (i + 1) & (len(p.index) - 1)
	}
	p.index[i] = run + 1
}

// home returns where in the index a run belongs (Fibonacci hashing).
func (p *chunkPaths) home(before, content uint32) int {
	key := uint64(before)<<32 | uint64(content)
	key *= 0x9E3779B97F4A7C15
	key ^= key >> 32
	return int(key * 0x9E3779B97F4A7C15 >> (64 - uint(bits.Len(uint(len(p.index)-1)))))
}

func (p *chunkPaths) grow() {
	p.index = make([]uint32, max(64, 2*len(p.index)))
	for run := range uint32(p.runs.len()) {
		p.enter(run)
	}
}

// close gives back what only adding prompts needs.
func (p *chunkPaths) close() { p.contents, p.index = stretches[uint32]{}, nil }

// path writes the chunks of a prompt, given the last one. The length of chunks must be that of the prompt.
func (p *chunkPaths) path(last chunkPlace, chunks []uint32) {
	for left := len(chunks); left > 0; {
		r := p.runs.at(last.run)
		for chunk := last.chunk; left > 0; chunk-- {
			left--
			chunks[left] = chunk
			if chunk == r.first {
				break
			}
		}
		last = r.before
	}
}

// each yields all chunks, with the chunk before each of them if there is one.
func (p *chunkPaths) each(yield func(before uint32, hasBefore bool, content, chunk uint32)) {
	for run := range uint32(p.runs.len()) {
		r := p.runs.at(run)
		before, hasBefore := r.before.chunk, r.before != beforeAll
		for chunk := r.first; chunk <= p.last(run); chunk++ {
			yield(before, hasBefore, *p.contents.at(chunk), chunk)
			before, hasBefore = chunk, true
		}
	}
}
