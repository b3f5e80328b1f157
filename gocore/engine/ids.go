package engine

import "math"

// NextID returns the first id after last that no request has, for loops whose requests come and go without end. Ids
// count up; after the largest one they begin again at 0.
func NextID[R any](last RequestID, requests map[RequestID]R) RequestID {
	for {
		if last == math.MaxInt32 {
			last = -1
		}
		last++
		if _, taken := requests[last]; !taken {
			return last
		}
	}
}
