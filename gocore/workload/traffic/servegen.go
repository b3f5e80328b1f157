package traffic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// readServeGen draws the requests of the clients that ServeGen describes. Each client is a pair of files,
// NAME-trace.csv and NAME-dataset.json.
//
// In each window of a client there are as many requests as were counted, rate times length. Their gaps have the
// distribution and the coefficient of variation of the window and are stretched to fill it. Lengths are drawn from
// those of the time.
func readServeGen(c *collector, sources []Source) error {
	c.Unit = "request"
	clients, err := pairClients(sources)
	if err != nil {
		return err
	}
	total := 0.0
	for i := range clients {
		if err := clients[i].read(c); err != nil {
			return err
		}
		total += clients[i].expected()
	}
	if total > MaxRequests {
		return fmt.Errorf("%s: the rates make %.0f requests, want at most %d: fewer clients", c.file, total,
			MaxRequests)
	}
	for i := range clients {
		if err := clients[i].draw(c, uint64(i)); err != nil {
			return err
		}
	}
	c.sort()
	return nil
}

// pairClients finds the two files of each client, in the order of their names.
func pairClients(sources []Source) ([]client, error) {
	var clients []client
	for file, source := range sources {
		name, isDataset := "", false
		for _, suffix := range []string{"", ".gz", ".zst"} {
			if stem, found := strings.CutSuffix(source.Name, "-trace.csv"+suffix); found {
				name = stem
			} else if stem, found := strings.CutSuffix(source.Name, "-dataset.json"+suffix); found {
				name, isDataset = stem, true
			}
		}
		if name == "" {
			return nil, fmt.Errorf("%s: the name of the file must end in -trace.csv or -dataset.json, as ServeGen's do",
				source.Name)
		}
		at := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
		if at < 0 {
			at = len(clients)
			clients = append(clients, client{name: name})
		}
		into := &clients[at].trace
		if isDataset {
			into = &clients[at].dataset
		}
		if into.Reader != nil {
			return nil, fmt.Errorf("%s: given twice, want it once", source.Name)
		}
		if *into = source; !isDataset {
			clients[at].file = int32(file)
		}
	}
	for _, c := range clients {
		if c.trace.Reader == nil || c.dataset.Reader == nil {
			missing := map[bool]string{true: "-trace.csv", false: "-dataset.json"}[c.trace.Reader == nil]
			return nil, fmt.Errorf("%s%s: missing, want both files of each client", c.name, missing)
		}
	}
	slices.SortFunc(clients, func(a, b client) int { return strings.Compare(a.name, b.name) })
	return clients, nil
}

// expected returns the number of requests of a client.
func (c *client) expected() float64 {
	total := 0.0
	for _, w := range c.windows {
		total += w.rate * w.lengthS
	}
	return total
}

// draw adds the requests of a client. Random numbers depend on the place of the client among all, not on other clients.
func (c *client) draw(into *collector, number uint64) error {
	stream := func(kind uint64) *rand.PCG { return rand.NewPCG(into.Seed, number*streams+kind) }
	arrivals, inputs, outputs := stream(arrivalStream), rand.New(stream(inputStream)), rand.New(stream(outputStream))
	gaps := map[process]func() float64{}
	due := 0.0 // requests so far, with fractions of one
	drawn := 0.0
	place := int32(0)
	for _, w := range c.windows {
		due += w.rate * w.lengthS
		count := int(math.Round(due) - drawn)
		drawn += float64(count)
		gap, known := gaps[w.process]
		if !known {
			gap = into.Gaps(w.process.distribution, w.process.cv, arrivals)
			gaps[w.process] = gap
		}
		for _, startS := range fill(count, w, gap) {
			input, output, err := c.lengths(startS, inputs, outputs)
			if err != nil {
				return err
			}
			place++
			r := Request{File: c.file, Place: place, Session: -1, After: -1, Input: input, Output: output}
			r.StartNs = into.at(int64(math.Round(startS * 1e9)))
			if err := into.add(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill places requests into a window: the gaps before, between and after them, stretched to its length.
func fill(count int, w window, gap func() float64) []float64 {
	starts := make([]float64, count)
	sum := 0.0
	for i := range starts {
		sum += gap()
		starts[i] = sum
	}
	if count > 0 {
		sum += gap()
	}
	for i := range starts {
		share := float64(i+1) / float64(count+1)
		if sum > 0 && !math.IsInf(sum, 1) {
			share = starts[i] / sum
		}
		starts[i] = w.startS + w.lengthS*share
	}
	return starts
}
