// Package kvcache says what a KV block is: its identity, its hashes, and the events that announce it.
//
// A sequence of tokens is cut from the front into blocks of block_size tokens. Two full blocks are the same cache entry
// exactly when they sit at the same position and everything before and inside them is equal. The simulator therefore
// never stores tokens: it names each distinct prefix by a dense integer, a BlockID, and compares those.
//
//	tokens   | 7 7 7 7 | 7 7 9 9 | 9 9 5 5 |            tokens   | 7 7 7 7 | 8 8 8 8 |
//	BlockID       0         1         2                  BlockID       0         3
//
// Prompt is the list of BlockIDs of one request; the workload package interns them while it reads a trace. Blocks that
// no other request can ever share (generated tokens, or everything when prefix caching is off) get an id of their own
// from the upper half of the id space.
//
// hash.go has the 64-bit and 128-bit hashes under which the outside world (routers, event subscribers) knows blocks.
// Package paged is the block pool of the vLLM-style engine, package radix the prefix tree of the SGLang-style one.
package kvcache
