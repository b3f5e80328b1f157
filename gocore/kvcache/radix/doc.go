// Package radix is the KV cache of the SGLang-style engine: a number of token slots, and a tree of the pages that can
// be reused. A page is what other engines call a block.
//
//	                root                            request A: 1 2 3 4, then a b c of its own
//	               /    \                           request B: 1 2 9 9
//	          [1 2]      [7 8 9]  (unused)
//	         /     \
//	A: [3 4 a]      [9 9] B                         locks:  [1 2] has two locked children,
//	      |                                                 [3 4 a] has one,
//	 [b|c] A, a chain                                       [b|c] and [9 9] are held by A and B
//
// A request owns a Holding: a slot for each of its first tokens, some of them shared. Its life in the pool:
//
//	Prefill      takes over what the tree has of the sequence, and takes slots for the rest
//	Cache        puts its whole pages into the tree
//	DecodeOne    gives it the slot of a generated token, and caches
//	Decode       does so for several tokens, if no other request can have their pages
//	LastDecode   gives it the slot of its last token
//	Finish       leaves its pages to the tree for others
//	Retract      leaves only what it has put there before
//
// One whose prompt is computed elsewhere begins with other steps instead of Prefill:
//
//	Reserve      takes over what the tree has of the prompt, and takes whole pages of slots for the rest
//	Activate     gives back slots behind the prompt, and caches
//
// Nodes that no holding needs can be evicted, leaves first, the one unused for longest first, always as a whole. So it
// matters how pages are cut into nodes: one node for what a request inserts at once, cut in two where another request
// leaves it. While decoding, each page is a node of its own. Where pages are private such a run of nodes is kept as
// one, a chain, which is cut page by page: only the request that made it looks for its pages, and all of them have been
// used at the same time.
//
// Tokens are not stored. A page id (kvcache.BlockID) stands for the page and everything before it, so an id occurs once
// in the tree, one table replaces the tables of children, and two sequences agree up to a page exactly if they have the
// same id there.
//
// Invariants, checked by the tests:
//
//   - free + evictable + protected + the requests' own + leaked - over-returned = all slots.
//   - A node is locked if a request holds it or anything below it; requests hold paths from the root.
//   - A node below another was used no later than that one.
//
// What surprises, and is the reference's: an admission makes room before it looks for its prefix and can evict it;
// equal prompts that are prefilled together do not share, and the later one keeps duplicates; a node that is cut keeps
// its age. The reference also loses duplicates when a request is retracted, and returns slots it shares when that
// happens at once (the parameter quirks of New).
//
// LeasePool, which SGLang's own scheduler has, is the cache as SGLang itself keeps it. A tier of host memory may lie
// below it (host.go): then nodes may have left the device and be loaded back.
//
// pool.go has the slots and what requests do, tree.go the tree, lock.go and evict.go its two other sides, events.go the
// record for routers, which copies.go and pageset.go keep.
package radix
