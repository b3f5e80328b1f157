package router

// RoundRobin hands requests to workers in turn, in order of arrival. The zero value starts with worker 0.
type RoundRobin struct {
	next int
}

// Pick chooses one of workers workers.
func (r *RoundRobin) Pick(workers int) int {
	picked := r.next % workers
	r.next = picked + 1
	return picked
}
