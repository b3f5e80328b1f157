package journal

import (
	"io"

	"dynosim/gocore/perfetto"
)

// Scale is a change of the number of workers, by a planner.
type Scale struct {
	AtMs float64
	Pool string
	To   int
}

// WriteTimeline writes the timeline of a journal that is closed, as a trace of package perfetto.
func (j *Journal) WriteTimeline(out io.Writer, scaling []Scale, faults []Fault) error {
	cluster := perfetto.NewSequence(clusterSequences)
	j.describe(cluster)
	j.writeRates(cluster)
	j.writeScaling(cluster, scaling)
	j.writeFaults(cluster, faults)
	sequences := []*perfetto.Sequence{cluster}
	for _, part := range j.withParts() {
		if part.router.out != nil {
			sequences = append(sequences, part.router.out)
		}
	}
	for _, w := range j.all() {
		sequences = append(sequences, w.out, w.passes)
		if w.copied != nil {
			sequences = append(sequences, w.copied)
		}
	}
	for _, s := range sequences {
		if _, err := out.Write(s.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// describe makes the tracks of the whole run.
func (j *Journal) describe(out *perfetto.Sequence) {
	out.Describe(perfetto.Track{ID: clusterTrack, Name: "cluster"})
	out.Describe(perfetto.Track{ID: arrivalsTrack, Parent: clusterTrack, Name: "arrivals", Rank: 0, Counts: true,
		Unit: "1/s"})
	out.Describe(perfetto.Track{ID: completionsTrack, Parent: clusterTrack, Name: "completions", Rank: 1, Counts: true,
		Unit: "1/s"})
	if j.cfg.Good != nil {
		out.Describe(perfetto.Track{ID: goodputTrack, Parent: clusterTrack, Name: "goodput", Rank: 2, Counts: true,
			Unit: "1/s"})
	}
	if j.cfg.Live {
		return
	}
	out.Describe(perfetto.Track{ID: routerTrack, Name: "router", Rank: 1})
	out.Describe(perfetto.Track{ID: routerQueueTrack, Parent: routerTrack, Name: "waiting", Rank: 0, Counts: true})
	out.Describe(perfetto.Track{ID: decisionsTrack, Parent: routerTrack, Name: "decisions", Rank: 1})
}

// writeRates writes the counters of requests per second: each value holds for a window.
func (j *Journal) writeRates(out *perfetto.Sequence) {
	totals := j.sumOfTotals()
	rates := []struct {
		track perfetto.TrackID
		of    func(*window) int64
		shown bool
	}{
		{arrivalsTrack, func(in *window) int64 { return in.arrivals }, true},
		{completionsTrack, func(in *window) int64 { return in.completions }, true},
		{goodputTrack, func(in *window) int64 { return in.good }, j.cfg.Good != nil},
	}
	for _, rate := range rates {
		before := int64(-1)
		for i := 0; rate.shown && i <= len(totals.windows); i++ {
			in := totals.window(i)
			startMs := min(float64(float64(i)*totals.stepMs), j.nowMs)
			from, _, ok := j.cfg.within(startMs, startMs+totals.stepMs)
			if n := rate.of(&in); ok && n != before {
				out.Count(rate.track, from, float64(n)/(totals.stepMs/1000))
				before = n
			}
		}
	}
}

// writeScaling writes a counter of the workers of each pool that a planner has scaled.
func (j *Journal) writeScaling(out *perfetto.Sequence, scaling []Scale) {
	tracks := map[string]perfetto.TrackID{}
	for _, e := range scaling {
		track, known := tracks[e.Pool]
		if !known {
			track = scaleTrack + perfetto.TrackID(len(tracks))
			tracks[e.Pool] = track
			out.Describe(perfetto.Track{ID: track, Parent: clusterTrack, Name: e.Pool + " workers",
				Rank: 3 + len(tracks), Counts: true})
		}
		if _, at, ok := j.cfg.within(e.AtMs, e.AtMs); ok {
			out.Count(track, at, float64(e.To))
		}
	}
}
