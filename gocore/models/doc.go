// Package models knows the layers of models, and how vLLM lays out their KV cache.
//
// Facts say what a model keeps for a sequence: how many layers have full attention, sliding windows or linear
// attention, and the sizes of each. They come from the table that is part of the program (Find) or from a model's
// config.json (ReadConfig). Layout divides the memory of a GPU as vLLM does: layers of one kind in groups of as many
// layers each, one pool of blocks for all groups, a block of attention as large as a linear state.
//
//	facts, err := models.Find("gpt-oss-120b")
//	layout, err := facts.Layout(models.Shape{Ranks: 2})
//	blocks := layout.Blocks(40 << 30)
//	layout.Concurrency(blocks, models.Limits{Length: 131072, Budget: 8192, Flights: 2})
//
// It is pure: files are read by the caller.
package models
