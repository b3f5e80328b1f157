// Package routing chooses the worker of each request, among workers that come and go while it runs: in turn, at random,
// or by what they have cached and have to do.
//
//	Add, Remove, Avoid ------> workers ----+
//	Apply: cache events -----> blocks -----+--> router.KV, or a list --> Choice: "request 7 goes to worker a3, rank 0"
//	Submit, FirstToken, Free: requests ----+
//
// It is a state machine: time goes in as milliseconds, random numbers come from a generator with a seed. The KV-aware
// router is the one of replays; each data-parallel rank is a worker to it. Workers name blocks by their own hashes;
// here blocks are known by the hashes of their tokens and of all tokens before them, which prompts have, too
// (blocks.go).
//
// A worker that has failed is avoided for a while, unless no other is left: the record of a worker that was killed
// stays for some seconds.
package routing
