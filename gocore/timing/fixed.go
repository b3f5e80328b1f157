package timing

// Fixed is a timing model whose durations depend on nothing: Prompts for the prompt tokens of a pass, Step for its
// decode step, in milliseconds.
type Fixed struct{ Prompts, Step float64 }

var _ Model = Fixed{}

// PrefillMs implements [Model].
func (f Fixed) PrefillMs(s PrefillShape) float64 {
	if s.NewTokens() == 0 {
		return 0
	}
	return f.Prompts
}

// DecodeMs implements [Model].
func (f Fixed) DecodeMs(DecodeShape) float64 { return f.Step }

// Pure reports true; see the function of that name.
func (Fixed) Pure() bool { return true }
