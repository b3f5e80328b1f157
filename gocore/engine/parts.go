package engine

import "slices"

// Parts says where the time of a pass went, and which requests take part. Its slices are valid until the next pass of
// the same engine. The three durations add up to the length of the pass, but for rounding.
type Parts struct {
	PromptMs float64 // computing prompts
	DecodeMs float64 // giving requests their next tokens
	HostMs   float64 // added by step_overhead_us and the like

	// Joined are the requests that begin to take part with this pass, or begin again after they were preempted.
	Joined []RequestID
	// LostAtStart are the requests that lose their KV when the pass starts and take no part in it, LostAtEnd those that
	// take part and lose their KV afterwards. They wait again.
	LostAtStart, LostAtEnd []RequestID
	// Prompts are the requests that share PromptMs.
	Prompts []PromptShare
	// Copies are those between the device and a tier of host memory that were submitted since the pass before.
	Copies []Copy
	// Loaded are the requests whose KV has come back from the host, while they waited, when that was noticed.
	Loaded []HostLoad
}

// HostLoad is the time in which the KV of a waiting request is copied back from the host.
type HostLoad struct {
	ID              RequestID
	FromMs, UntilMs float64
}

// Copy is blocks on their way to the host, or back, or between the host and storage behind it. Those of one rank in one
// direction follow each other.
type Copy struct {
	Back           bool
	Storage        bool
	StartMs, EndMs float64
	Blocks         int
	Rank           int // the data-parallel rank, from 0
}

// PromptShare is the tokens of a request that a pass computes: Tokens of them, from position Start on.
type PromptShare struct {
	ID            RequestID
	Start, Tokens int
}

// NewParts returns what an engine fills in if it is to explain its passes, nil if it is not.
func NewParts(explain bool) *Parts {
	if !explain {
		return nil
	}
	return &Parts{}
}

// Clone returns a copy that keeps what it has.
func (p *Parts) Clone() *Parts {
	if p == nil {
		return nil
	}
	kept := *p
	kept.Joined, kept.Prompts = slices.Clone(p.Joined), slices.Clone(p.Prompts)
	kept.LostAtStart, kept.LostAtEnd = slices.Clone(p.LostAtStart), slices.Clone(p.LostAtEnd)
	kept.Copies, kept.Loaded = slices.Clone(p.Copies), slices.Clone(p.Loaded)
	return &kept
}

// Reset empties the parts for the next pass.
func (p *Parts) Reset() {
	if p != nil {
		*p = Parts{
			Joined: p.Joined[:0], LostAtStart: p.LostAtStart[:0], LostAtEnd: p.LostAtEnd[:0], Prompts: p.Prompts[:0],
			Copies: p.Copies[:0], Loaded: p.Loaded[:0],
		}
	}
}

// Join notes that a request takes part.
func (p *Parts) Join(id RequestID) {
	if p != nil {
		p.Joined = append(p.Joined, id)
	}
}

// Copy notes that blocks are copied.
func (p *Parts) Copy(c Copy) {
	if p != nil {
		p.Copies = append(p.Copies, c)
	}
}

// Load notes that the KV of a waiting request has been copied back.
func (p *Parts) Load(l HostLoad) {
	if p != nil {
		p.Loaded = append(p.Loaded, l)
	}
}

// Compute notes that a request has a share of the prompts.
func (p *Parts) Compute(id RequestID, start, tokens int) {
	if p != nil && tokens > 0 {
		p.Prompts = append(p.Prompts, PromptShare{id, start, tokens})
	}
}

// LoseAtStart notes that a request takes no part after all.
func (p *Parts) LoseAtStart(id RequestID) {
	if p != nil {
		p.LostAtStart = append(p.LostAtStart, id)
		p.Prompts = slices.DeleteFunc(p.Prompts, func(s PromptShare) bool { return s.ID == id })
	}
}

// LoseAtEnd notes that a request loses its KV after the pass.
func (p *Parts) LoseAtEnd(id RequestID) {
	if p != nil {
		p.LostAtEnd = append(p.LostAtEnd, id)
	}
}

// CoastExplainer is an engine that can explain the passes through which it coasts: none of them computes prompts.
type CoastExplainer interface {
	Coaster

	// CoastHostMs is the host time of each pass of the last Coast. It is to be asked for right after Settle.
	CoastHostMs() float64
}
