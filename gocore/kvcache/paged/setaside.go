package paged

// SetAside takes n slots at once, evicting if it must, for the next calls of UsePartial. It is all or nothing. Until
// GiveBack they count as active.
func (p *Pool) SetAside(n int) bool {
	if n > p.Available() {
		return false
	}
	for range n {
		p.fill(Partial)
	}
	p.aside += n
	if p.recording {
		p.publishEvicted()
	}
	return true
}

// Aside returns the number of slots that are set aside and not used yet.
func (p *Pool) Aside() int { return p.aside }

// GiveBack makes the slots free that are still set aside.
func (p *Pool) GiveBack() {
	for range p.aside {
		p.drop(PartialSlot)
	}
	p.aside = 0
}
