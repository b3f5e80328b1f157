package speculation

// Ahead is draws that are made before it is known how many of them are needed, as those of a coast that an arrival may
// cut short.
type Ahead struct {
	from Mark
	open bool
}

// Begin notes that draws from here on may not be needed.
func (a *Ahead) Begin(d *Drafts) { a.from, a.open = d.Mark(), true }

// Abandon makes the draws since Begin come again, unless they were kept.
func (a *Ahead) Abandon(d *Drafts) {
	if a.open {
		a.Again(d)
		a.open = false
	}
}

// Keep notes that it is decided which draws are needed. It reports false if none were made since the last time.
func (a *Ahead) Keep() bool {
	open := a.open
	a.open = false
	return open
}

// Again makes the draws since Begin come again, of which fewer are needed.
func (a *Ahead) Again(d *Drafts) { d.Rewind(a.from) }
