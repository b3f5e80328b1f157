// Package blocks names the token blocks of live requests.
//
// Engines never see tokens: they compare kvcache.BlockIDs, each of which stands for a full block and everything before
// it. Offline, the workload hands them out while it reads a trace. A live worker learns tokens as requests arrive and
// runs for weeks, so its Table hands ids out on demand and forgets them when they are no longer needed:
//
//	tokens of prompt and planned output
//	| 7 7 7 7 | 7 7 9 9 | 9 5     Hold     ids 0, 1 (the tail has none)      engine.Request.Prompt, NamedBlocks
//	| 7 7 7 7 | 8 8 8 8 |       -------->  ids 0, 2
//	                                                                         kvcache.Event of a pass
//	hashes, tokens, parent      <--------  ids                               (what the engine has cached)
//	                             Resolve
//
// A block stays in the table while a request holds it, the engine has it cached, or a tier below the device needs its
// name. The table follows the latter from the events that pass through Resolve, so the engine must be observed
// (engine.Engine.Observe) and every pass's events be resolved, even if there are no subscribers. The order after each
// pass:
//
//	pass, _ := engine.RunPass(now)
//	changes := table.Resolve(pass.KVEvents)  // first: blocks that a request stored are still held by it
//	table.Release(prompt)                    // then: for each request that finished or was rejected
//
// A request that is cancelled between passes is released at once: what that does to the cache comes with the next pass.
//
// Ids count up and are not used again before 2^32 others were handed out. So if an engine still knows an id by mistake
// (SGLang's reference quirks withdraw pages that are still in its tree), the id belongs to no other block.
//
// Identity is decided by 128 bits of hash over the block and all before it, so that distinct blocks that collide in the
// 64 bits the outside world uses are distinct in the engine. A table belongs to one engine, whose loop owns it.
package blocks
