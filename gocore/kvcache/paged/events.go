package paged

import (
	"slices"

	"dynosim/gocore/kvcache"
)

// fillRecorded finds room for the missing blocks of a Use, as the plain loop there does, and publishes what happened: a
// Stored event for each unbroken run of new full blocks, then one Removed event with everything that was evicted.
// Partial blocks are private and not announced.
func (p *Pool) fillRecorded(held []Slot, first int, blocks []kvcache.BlockID) {
	isNew := append(p.isNew[:0], make([]bool, len(blocks))...)
	p.isNew = isNew
	for i, id := range blocks {
		if held[first+i] == noSlot {
			held[first+i] = p.fill(id)
			isNew[i] = id != Partial
		}
	}
	p.publishNew(held, first, blocks, isNew)
	p.publishEvicted()
}

// publishNew announces each unbroken run of those blocks, the first of which stands at held[first], that are new.
func (p *Pool) publishNew(held []Slot, first int, blocks []kvcache.BlockID, isNew []bool) {
	for i := 0; i < len(blocks); i++ {
		if !isNew[i] {
			continue
		}
		end := i + 1
		for end < len(blocks) && isNew[end] {
			end++
		}
		p.publishStored(held, first+i, blocks[i:end])
		i = end
	}
}

// publishStored announces blocks, the first of which stands at held[at].
func (p *Pool) publishStored(held []Slot, at int, blocks []kvcache.BlockID) {
	e := kvcache.Event{Kind: kvcache.Stored, Blocks: p.keep(blocks)}
	if at > 0 {
		e.Parent, e.HasParent = p.full.id(held[at-1]), true
	}
	p.publish(e)
}

func (p *Pool) publishEvicted() {
	if len(p.evicted) == 0 {
		return
	}
	p.publish(kvcache.Event{Kind: kvcache.Removed, Blocks: p.keep(p.evicted)})
	p.evicted = p.evicted[:0]
}

// keep copies blocks to where they stay until after TakeEvents.
func (p *Pool) keep(blocks []kvcache.BlockID) kvcache.Blocks {
	begin := len(p.announced)
	p.announced = kvcache.AppendRuns(p.announced, blocks)
	return slices.Clip(p.announced[begin:])
}

func (p *Pool) publish(e kvcache.Event) {
	p.events = append(p.events, Event{Event: e, Free: p.Free(), Active: p.active, Inactive: p.inactive})
}
