package enginetest

import "fmt"

// LastAdmission runs an engine from an instant until it has no requests. It returns the tokens found for the request
// that was admitted last and the start of the pass that admitted it, as text; "" if none was.
func LastAdmission(e Engine, fromMs float64) (tokensAndMs string) {
	for atMs := fromMs; e.Requests() > 0; {
		p, _ := e.RunPass(atMs)
		for _, a := range p.Admitted {
			tokensAndMs = fmt.Sprint(a.ReusedTokens, " ", p.StartMs)
		}
		atMs = p.EndMs
	}
	return tokensAndMs
}
