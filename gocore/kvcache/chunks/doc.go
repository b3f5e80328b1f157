// Package chunks is the memory of the host below vLLM's KV cache, as the scheduler side of its OffloadingConnector
// keeps it: which chunks of prompts it has, and which of them go when it is full. It says nothing about time.
//
//	          Offer                Stored              Load
//	absent ----------> storing ----------> idle ----------------> being loaded
//	   ^                                    | ^                        |
//	   +------------ evicted ---------------+ +-------- Loaded --------+
//
// A chunk is a run of whole KV blocks of a prompt, from a multiple of the chunk's size on; its key is the content of
// the prompt up to its end, so equal prefixes have equal keys. Only idle chunks can be evicted: in the order of lru.go,
// which is vLLM's default, or of arc.go.
package chunks
