// Package timing says how long one simulated pass takes.
//
// A pass has two parts that are added, never overlapped: a prefill part (prompt tokens processed) and a decode part
// (one token for every request that is ready). A model predicts raw milliseconds for each; Clock scales them by the
// speedup ratios and rounds them to whole nanoseconds:
//
//	shape of the pass --model--> raw ms --/1000, round to ns--> duration --/ratio, round to ns--> seconds
//
// Both roundings matter: a report shows times in milliseconds with six decimals, so a last bit that differs here is
// visible to every user.
//
// Three models exist. Polynomial needs nothing. Grid interpolates between measured points; package timing/profile reads
// them from files. Asked takes its answers from outside, such as from a vendor's SDK, and remembers them.
// Read model.go for what a model is asked, clock.go for how the scheduler asks, rounding.go for the rounding.
//
// On processors with fused multiply-add the compiler may merge a*b+c into one rounding. Every product is therefore
// written float64(a*b), which forbids it: results are the same bits on every machine.
package timing
