// Package detokenize makes text of tokens by the tokenizer.json of a model, as the library tokenizers does, piece by
// piece while tokens arrive.
//
//	tokens --> vocabulary.go: the strings of tokens --> chain.go: the decoders of the file, one after the other --> text
//
// A decoder of the library sees all tokens of a text at once: it may change the first or the last one only, look at
// neighbours, or make one long token of all. A [stage] does the same with tokens that come one after the other, whose
// text comes in parts: it hands on what no later token can change, and keeps the rest. What a [Decoder] returns is
// therefore never taken back, and all of it together is what the library makes of all tokens at once.
//
// Whatever keeps text waits no longer than it has to: a run of byte tokens (<0xE2>) until another token comes, since
// one byte out of place makes replacement characters of all of them; a character of which bytes are missing; the blanks
// that may be the end of a text.
package detokenize
