package engine

// Reporter is an engine that can tell what it has to do: to planners, to routers and in metrics.
type Reporter interface {
	Engine

	// ReportWork makes every pass from now on take note of its work.
	ReportWork()

	// Work is what the last pass did and left.
	Work() Work

	// Load is what there is to do now: requests that wait, those that run, and blocks in use.
	Load() (waiting, running, activeBlocks int)
}

// Lockstep is the time that the ranks of an engine spent in common passes, summed over ranks, and how much of it each
// waited for the slowest.
type Lockstep struct{ PassMs, WaitMs float64 }

// Since returns the time after an earlier report of the same worker. An engine that has taken the place of another one
// begins anew.
func (l Lockstep) Since(earlier Lockstep) Lockstep {
	if l.PassMs < earlier.PassMs {
		return l
	}
	return Lockstep{PassMs: l.PassMs - earlier.PassMs, WaitMs: l.WaitMs - earlier.WaitMs}
}

// Plus returns the sum of two reports.
func (l Lockstep) Plus(more Lockstep) Lockstep {
	return Lockstep{PassMs: l.PassMs + more.PassMs, WaitMs: l.WaitMs + more.WaitMs}
}

// WaitShare returns the part of the time in passes that was spent waiting, NaN without any pass.
func (l Lockstep) WaitShare() float64 { return l.WaitMs / l.PassMs }

// LockstepReporter is an engine with several ranks that run their passes together.
type LockstepReporter interface {
	Engine

	// Lockstep is the time in passes so far, including the one that runs.
	Lockstep() Lockstep
}

// Ranked is an engine whose data-parallel ranks a shell looks at one by one, as its clients choose among them.
type Ranked interface {
	LockstepReporter
	Reporter

	// ObserveRanks does what Observe does, but the KVEvents of passes are those of each rank, which they name. They are
	// in its RankPass, too.
	ObserveRanks()

	// ChooseRank returns the rank, from 0, on which the engine puts a request that comes at nowMs if the shell has not
	// chosen one. The next Add must be of that request, with this rank.
	ChooseRank(nowMs float64) int

	// RankPass is the part that a rank had in the last pass. It may end earlier than the pass. RankWork and RankLoad are
	// Work and Load of that rank alone.
	RankPass(rank int) *Pass
	RankWork(rank int) Work
	RankLoad(rank int) (waiting, running, activeBlocks int)
}

// GroupUse is what the groups of layers of a hybrid KV cache have, and what requests wait for.
type GroupUse struct {
	Full, Others int // blocks in use by the group of full attention, and by the others
	// How long the first request in line had no room while passes ran: as its blocks of full attention alone were more
	// than there were, and as there was room for these but not for those of the other groups beside.
	WaitFullMs, WaitOthersMs float64
}

// Lack is what the first request in line has no room for, as far as it was looked at.
type Lack uint8

const (
	NoLack     Lack = iota
	FullLack        // the blocks of full attention, even if it had no others
	OthersLack      // those of the other groups beside them
)

// LackOf returns what the first request in line lacks if it lacks blocks, and whether those of full attention alone are
// too many.
func LackOf(lacks, full bool) Lack {
	switch {
	case full:
		return FullLack
	case lacks:
		return OthersLack
	}
	return NoLack
}

// Wait counts the time of passes that run while the first request in line waits.
func (g *GroupUse) Wait(l Lack, ms float64) {
	switch l {
	case FullLack:
		g.WaitFullMs += ms
	case OthersLack:
		g.WaitOthersMs += ms
	}
}

// Since returns the time after an earlier report of the same worker. An engine that has taken the place of another one
// begins anew.
func (g GroupUse) Since(earlier GroupUse) GroupUse {
	if g.WaitFullMs < earlier.WaitFullMs || g.WaitOthersMs < earlier.WaitOthersMs {
		return g
	}
	g.WaitFullMs -= earlier.WaitFullMs
	g.WaitOthersMs -= earlier.WaitOthersMs
	return g
}

// Plus returns the sum of two reports.
func (g GroupUse) Plus(more GroupUse) GroupUse {
	g.WaitFullMs += more.WaitFullMs
	g.WaitOthersMs += more.WaitOthersMs
	return g
}

// GroupReporter is an engine whose KV cache may have several groups.
type GroupReporter interface {
	Engine

	// Groups is what they have now, and the time in passes so far, including the one that runs; false if there is one
	// group only.
	Groups() (GroupUse, bool)
}

// CoastReporter is an engine that can tell what it has to do although it coasts.
type CoastReporter interface {
	Coaster
	Reporter

	// CoastWork is what the last of the passes that were settled did. It is to be asked for right after Settle.
	CoastWork() Phases
}

// Before returns the work of the pass that came passes passes before this one in the same coast: each sequence had a
// token less for each of them.
func (p Phases) Before(passes int) Phases {
	p.DecodeKVTokens -= passes * p.DecodeRequests
	return p
}

// Work is what a pass did, and what waits after it.
type Work struct {
	Scheduled Phases
	Queued    Phases
}

// Phases counts requests that have prompt tokens to compute, and requests that decode.
type Phases struct {
	PrefillRequests  int
	PrefillTokens    int     // to be computed; of queued requests, their prompts
	PrefillVariance  float64 // of the lengths of their prompts
	PrefillKVTokens  int     // of scheduled requests, in the cache already
	DecodeRequests   int
	DecodeKVTokens   int
	DecodeKVVariance float64

	prefill, decode spread
}

// Merge adds what another scheduler counted.
func (p *Phases) Merge(other Phases) {
	p.PrefillTokens += other.PrefillTokens
	p.PrefillKVTokens += other.PrefillKVTokens
	p.DecodeKVTokens += other.DecodeKVTokens
	p.PrefillVariance = p.prefill.merge(p.PrefillRequests, other.prefill, other.PrefillRequests)
	p.DecodeKVVariance = p.decode.merge(p.DecodeRequests, other.decode, other.DecodeRequests)
	p.PrefillRequests += other.PrefillRequests
	p.DecodeRequests += other.DecodeRequests
}

// AddPrefill counts a request that computes tokens of a prompt of promptTokens, of which kvTokens are there.
func (p *Phases) AddPrefill(promptTokens, tokens, kvTokens int) {
	p.PrefillRequests++
	p.PrefillTokens += tokens
	p.PrefillKVTokens += kvTokens
	p.PrefillVariance = p.prefill.add(float64(promptTokens), p.PrefillRequests)
}

// AddDecode counts a request that decodes with kvTokens tokens.
func (p *Phases) AddDecode(kvTokens int) {
	p.DecodeRequests++
	p.DecodeKVTokens += kvTokens
	p.DecodeKVVariance = p.decode.add(float64(kvTokens), p.DecodeRequests)
}

// spread is the state of Welford's online algorithm for the variance: the mean so far, and the sum of squared
// differences from it.
type spread struct{ mean, squares float64 }

// add counts the n-th value and returns the population variance of all so far.
func (s *spread) add(value float64, n int) float64 {
	before := value - s.mean
	s.mean += before / float64(n)
	s.squares += float64(before * (value - s.mean))
	return s.squares / float64(n)
}

// merge adds the state over m other values to that over n values and returns the population variance of all of them, by
// the formula of Chan, Golub and LeVeque.
func (s *spread) merge(n int, other spread, m int) float64 {
	if m == 0 {
		return s.squares / float64(max(1, n))
	}
	all := float64(n + m)
	apart := other.mean - s.mean
	s.mean += apart * float64(m) / all
	s.squares += other.squares + float64(float64(apart*apart)*float64(n)*float64(m))/all
	return s.squares / all
}
