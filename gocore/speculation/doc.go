// Package speculation draws how many tokens a request emits in one pass when the engine decodes speculatively.
//
// With n draft tokens a pass emits the one token it would have emitted anyway, and then every draft up to the first
// that is rejected:
//
//	drafts     d1      d2      d3         rates are conditional: 0.85,0.3,0 accepts d2 in 30 % of the cases
//	accepted   yes     no      -          in which d1 was accepted, and never d3
//	emitted    1 token + 1 draft = 2
//
// No tokens are computed here, so whether a draft is accepted is a draw from a generator. Runs of the reference can
// only be repeated with its generator: ChaCha with 12 rounds, keyed from a 64-bit seed by eight steps of PCG32. Neither
// is in the standard library, whose ChaCha has 8 rounds (math/rand/v2) or 20 (golang.org/x/crypto).
//
// drafts.go has the draws, chacha.go the generator, rates.go reads the list of rates that users write.
package speculation
