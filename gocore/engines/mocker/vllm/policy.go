package vllm

import "dynosim/gocore/engine"

// choice is what a policy is asked about; its room is used again.
type choice struct {
	policy     engine.Policy // nil without one
	candidates []engine.Candidate
	places     []int // of the candidates, in the list that they are from
}

func (c *choice) begin() { c.candidates, c.places = c.candidates[:0], c.places[:0] }

func (c *choice) offer(place int, r *sequence) {
	c.places = append(c.places, place)
	c.candidates = append(c.candidates, engine.Candidate{
		ID: r.id, PromptTokens: r.promptTokens, Computed: r.computed, Generated: r.generated, Blocks: len(r.slots),
		Preempted: r.status == preempted,
	})
}

// next returns the place in the waiting queue of the request that the policy wants to be admitted next.
func (s *Scheduler) next() int {
	c := &s.choice
	c.begin()
	for i := range s.waiting.Len() {
		c.offer(i, s.waiting.At(i))
	}
	return c.places[c.policy.Next(s.out.StartMs, c.candidates)]
}

// chosenVictim returns the place of the running request that the policy wants to be preempted.
func (s *Scheduler) chosenVictim() int {
	c := &s.choice
	c.begin()
	for i, r := range s.running {
		if r.status == running {
			c.offer(i, r)
		}
	}
	if len(c.places) == 1 {
		return c.places[0]
	}
	return c.places[c.policy.Victim(s.out.StartMs, c.candidates)]
}
