package handoff

// Transfer says how long it takes to copy the KV of a prompt from the source to the destination. The zero value takes
// no time.
type Transfer struct {
	BytesPerToken int
	// BandwidthGBs is in gigabytes (1e9 bytes) per second. 0 means that copying takes no time, not that it never ends.
	BandwidthGBs float64
	Mode         Mode

	// MsPerBlock is how long a block takes, if it is greater than 0; else that follows from bytes and bandwidth.
	// Unlimited lets any number of transfers run side by side between two workers, not one after the other. Both are
	// for engines that load prompts by rules of their own.
	MsPerBlock float64
	Unlimited  bool
}

// Mode says which tokens are copied.
type Mode uint8

const (
	// FullPrompt copies every token of the prompt, also those that the destination has cached.
	FullPrompt Mode = iota
	// DestinationMissing copies what the destination lacks, in whole blocks.
	DestinationMissing
)

// DelayMs returns the duration of the copy in milliseconds, for a prompt of promptTokens of which the destination lacks
// missingTokens (rounded up to whole blocks, so it may be the larger number):
//
//	tokens * bytes per token / (bandwidth * 1e9) * 1000
//
// It is neither rounded nor scaled by the engines' speedups.
func (t Transfer) DelayMs(promptTokens, missingTokens int) float64 {
	tokens := promptTokens
	if t.Mode == DestinationMissing {
		tokens = missingTokens
	}
	if t.BandwidthGBs <= 0 {
		return 0
	}
	return float64(tokens) * float64(t.BytesPerToken) / (t.BandwidthGBs * 1e9) * 1000
}

// BlockMs returns how long one block of the given number of tokens takes.
func (t Transfer) BlockMs(blockSize int) float64 {
	if t.MsPerBlock > 0 || t.BandwidthGBs <= 0 {
		return t.MsPerBlock
	}
	return float64(blockSize) * float64(t.BytesPerToken) / (t.BandwidthGBs * 1e9) * 1000
}
