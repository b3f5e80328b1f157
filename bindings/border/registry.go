package border

import (
	"fmt"
	"sync"
)

// Registry keeps the values that Python names by ids.
type Registry[T any] struct {
	mu    sync.Mutex
	last  int64
	known map[int64]T
}

// Add returns a new id for x.
func (r *Registry[T]) Add(x T) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[int64]T{}
	}
	r.last++
	r.known[r.last] = x
	return r.last
}

// Find returns the value of an id.
func (r *Registry[T]) Find(id int64) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.known[id]
	if !ok {
		return x, Failure(Internal, fmt.Sprintf("unknown run %d", id))
	}
	return x, nil
}

// Remove forgets an id. Unknown ones are ignored.
func (r *Registry[T]) Remove(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}
