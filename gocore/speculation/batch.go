package speculation

// Batch is requests that emit bursts in the same passes, in the order in which they draw, as counts alone. While no
// request ends and none joins, a pass is little more than these.
type Batch struct {
	Left   []int32 // tokens until the end of each request
	Room   []int32 // tokens until the end of its block, as the owner of the batch defines it
	Bursts []int32 // in the last pass
	before Mark
}

// Reset empties the batch.
func (b *Batch) Reset() { b.Left, b.Room, b.Bursts = b.Left[:0], b.Room[:0], b.Bursts[:0] }

// Add appends a request.
func (b *Batch) Add(left, room int) {
	b.Left, b.Room, b.Bursts = append(b.Left, int32(left)), append(b.Room, int32(room)), append(b.Bursts, 0)
}

// Pass draws a burst for each request and takes it from the counts. It returns the tokens of all, and the least of
// either count: a request that has none left has ended, perhaps before its burst did.
func (b *Batch) Pass(d *Drafts) (tokens, left, room int) {
	b.before = d.Mark()
	d.Bursts(b.Bursts)
	lefts, rooms := b.Left, b.Room[:len(b.Left)]
	sum, leastLeft, leastRoom := int32(0), lefts[0], rooms[0]
	for i, burst := range b.Bursts[:len(lefts)] {
		sum += burst
		lefts[i] -= burst
		rooms[i] -= burst
		leastLeft, leastRoom = min(leastLeft, lefts[i]), min(leastRoom, rooms[i])
	}
	return int(sum), int(leastLeft), int(leastRoom)
}

// Undo takes the last pass back, whose draws come again.
func (b *Batch) Undo(d *Drafts) {
	d.Rewind(b.before)
	for i, burst := range b.Bursts {
		b.Left[i] += burst
		b.Room[i] += burst
	}
}

// MostTokens returns the number of tokens of the next pass if all drafts are accepted.
func (b *Batch) MostTokens(maxBurst int) (tokens int) {
	for _, left := range b.Left {
		tokens += min(maxBurst, int(left))
	}
	return tokens
}
