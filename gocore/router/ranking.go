package router

import "math"

// ranking keeps workers by how much they have to do, so that a decision need not look at each of them. It is a binary
// tree over the workers by id: every node knows the least key below it, and how many workers have that.
//
//	          3 (twice)
//	   3 (once)         3 (once)
//	5      3          7      3         keys of workers 0 to 3
//
// The tree is stored level by level from index 1 on; node i is above nodes 2i and 2i+1. Keys are whole numbers.
type ranking struct {
	nodes  []rankNode
	leaves int // a power of two; those behind the last worker have the key noWorker
}

type rankNode struct {
	least int64
	count int32 // workers that have it
}

const noWorker = math.MaxInt64

// newRanking gives all workers the key 0.
func newRanking(workers int) *ranking {
	leaves := 1
	for leaves < workers {
		leaves *= 2
	}
	r := &ranking{nodes: make([]rankNode, 2*leaves), leaves: leaves}
	for i := range leaves {
		r.nodes[leaves+i] = rankNode{least: noWorker, count: 1}
		if i < workers {
			r.nodes[leaves+i].least = 0
		}
	}
	for i := leaves - 1; i > 0; i-- {
		r.nodes[i] = r.above(i)
	}
	return r
}

// above returns node i as it follows from the nodes below.
func (r *ranking) above(i int) rankNode {
	left, right := r.nodes[2*i], r.nodes[2*i+1]
	switch {
	case left.least < right.least:
		return left
	case left.least > right.least:
		return right
	}
	return rankNode{least: left.least, count: left.count + right.count}
}

// key returns the key of a worker.
func (r *ranking) key(worker int) int64 { return r.nodes[r.leaves+worker].least }

// set changes the key of a worker.
func (r *ranking) set(worker int, key int64) {
	i := r.leaves + worker
	r.nodes[i].least = key
	for i /= 2; i > 0; i /= 2 {
		n := r.above(i)
		if n == r.nodes[i] {
			return
		}
		r.nodes[i] = n
	}
}

// least returns the least key of all, and how many workers have it.
func (r *ranking) least() (key int64, count int) { return r.nodes[1].least, int(r.nodes[1].count) }

// pick returns the worker with the least key before which, by id, skip others have it too.
func (r *ranking) pick(skip int) int {
	i := 1
	for i < r.leaves {
		key := r.nodes[i].least
		i *= 2
		if left := r.nodes[i]; left.least != key {
			i++
		} else if skip >= int(left.count) {
			skip -= int(left.count)
			i++
		}
	}
	return i - r.leaves
}

// before returns how many workers with a lower id than worker have the least key.
func (r *ranking) before(worker int) (count int) {
	key := r.nodes[1].least
	for i := r.leaves + worker; i > 1; i /= 2 {
		if left := r.nodes[i-1]; i%2 == 1 && left.least == key {
			count += int(left.count)
		}
	}
	return count
}
