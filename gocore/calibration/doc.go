// Package calibration applies profiles: what the physical knobs of engines came to when they were fitted to
// measurements (python -m dynamo.calibrate).
//
// A profile has entries of four levels. One is chosen for the arguments of an engine, the most specific that fits:
//
//	model    engine, GPU, model and precision
//	kin      engine, GPU and model, which was measured on other GPUs or in other precisions
//	gpu      engine and GPU, whatever the model
//	engine   the engine, whatever runs where
//
// The engine and the source of durations must be those of the entry, as a factor on the predictions of one timing model
// says nothing about another. What the arguments do not say, the GPU of the polynomial for one, fits an entry if there
// is no other at its level. Checkpoints that differ in data type, tuning or date are one model. Knobs that the
// arguments give stay.
//
// An engine has nothing but its arguments. So fits group measurements by them, too (Key), and score what they hold out
// with the entries that are chosen here (Choose): what is published is what engines read.
//
// Read profile.go for the file, select.go for the choice, apply.go for what it does. The profiles in shipped/ are part
// of the program; "auto" stands for them, and "make profiles" writes them.
package calibration
