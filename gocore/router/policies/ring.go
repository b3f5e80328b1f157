package policies

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

// ring is a hash ring: each worker has points on it, and a key belongs to the worker whose point comes next. Points and
// keys are hashed as Shepherd model gateway does.
type ring struct {
	points  int // of each worker
	name    func(worker int) string
	workers []int // whose points there are
	at      []point
}

type point struct {
	hash   uint64
	worker int
}

// workerURL returns the name of a worker on rings, as that of the only engine of a host would be.
func workerURL(worker int) string { return "http://worker-" + strconv.Itoa(worker) + ":8000" }

// hashKey returns the first 8 bytes, little end first, of the BLAKE3 hash of a key.
func hashKey(key string) uint64 {
	sum := blake3.Sum256([]byte(key))
	return binary.LittleEndian.Uint64(sum[:])
}

// update places the points of the workers, if these have changed.
func (r *ring) update(workers []int) {
	if slices.Equal(r.workers, workers) {
		return
	}
	r.workers = append(r.workers[:0], workers...)
	r.at = r.at[:0]
	for _, w := range workers {
		for i := range r.points {
			r.at = append(r.at, point{hashKey(fmt.Sprintf("%s#%d", r.name(w), i)), w})
		}
	}
	slices.SortFunc(r.at, func(a, b point) int {
		if a.hash != b.hash {
			return compare(a.hash, b.hash)
		}
		return a.worker - b.worker
	})
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

// find returns the place of the first point at or after a hash; past the end it is the first of all.
func (r *ring) find(hash uint64) int {
	low, high := 0, len(r.at)
	for low < high {
		if middle := (low + high) / 2; r.at[middle].hash < hash {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low % len(r.at)
}

var ringFields = []strictjson.Field{
	integer("virtual_nodes", 1, 150, "Points of each worker on the ring."),
	{
		Name: "bounded_load_factor", Type: strictjson.Number{Min: 1},
		Doc: "Workers with more requests in flight than this times the mean, the new request included, are skipped: " +
			"the next point on the " +
			"ring decides. None: the ring alone decides.",
	},
}

// consistentHash sends a key to its worker on the ring. The key is the session, or the prompt of a request without one.
type consistentHash struct {
	memoryless
	ring   ring
	factor float64 // 0 for no bound
}

func newConsistentHash(o router.Options) rule {
	return &consistentHash{
		ring:   ring{points: o.Settings.Int("virtual_nodes"), name: workerURL},
		factor: o.Settings.Float("bounded_load_factor"),
	}
}

func (c *consistentHash) choose(v *view, r *router.Request, _ chance) int {
	c.ring.update(v.workers)
	at := c.ring.find(keyHash(r))
	if c.factor == 0 {
		return c.ring.at[at].worker
	}
	bound := c.factor * (v.mean() + 1/float64(len(v.workers)))
	for range c.ring.at {
		if w := c.ring.at[at].worker; float64(v.requests[w]+1) <= bound {
			return w
		}
		at = (at + 1) % len(c.ring.at)
	}
	return least(v.workers, v.requests) // all have the same load, and rounding hides that there is room
}

// keyHash returns the place on a ring of a request's session, or of its prompt.
func keyHash(r *router.Request) uint64 {
	if r.Session != "" {
		return hashKey(r.Session)
	}
	return hashPrefix(r, r.PromptTokens, 1)
}

// hashPrefix hashes the first tokens of a prompt: full blocks by their identity, and the length where the prompt is
// shorter than a block.
func hashPrefix(r *router.Request, tokens, blockSize int) uint64 {
	known := len(r.Prompt.Segments) * r.Prompt.PerSegment
	blocks := min((tokens+blockSize-1)/blockSize, known)
	if blocks == 0 {
		return hashNumber(uint64(r.PromptTokens))
	}
	return hashNumber(1<<63 | uint64(r.Prompt.Block(blocks-1)))
}

// hashNumber returns the place on a ring of a number, which is written as Shepherd writes the hash of a prefix.
func hashNumber(n uint64) uint64 {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], n)
	binary.BigEndian.PutUint64(bytes[:], xxh3.Hash(bytes[:]))
	var digits [16]byte
	hex.Encode(digits[:], bytes[:])
	sum := blake3.Sum256(digits[:])
	return binary.LittleEndian.Uint64(sum[:])
}
