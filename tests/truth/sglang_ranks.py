#!/usr/bin/env python3
"""Run several of SGLang's own schedulers as ranks with data-parallel attention, in lockstep and in virtual time: no GPU, no model.

usage: sglang_ranks.py CASES [-o RESULTS] [-k REGEX] [--passes N] [--python PYTHON]

This is what SGLang does with --enable-dp-attention and --dp-size N: every rank has a scheduler, a KV pool and a radix tree of its own, but all ranks
start their batches together, since they exchange token counts before each one.  Real are the N schedulers, and the settings that SGLang changes by itself with
data-parallel attention (it is asked for them: an Nth of the chunk, 0.3 of the conservativeness).  The driver adds the common clock: a round lasts as long as the slowest
rank's batch, a rank without one takes part with an empty batch, which takes no time, and no rank counts as idle while another one has work.  Request i, in order of
arrival, goes to rank i mod N.  Durations and installation: sglang_scheduler.py, which this script imports.

CASES as for sglang_scheduler.py, with
    dp_size   in `engine`: number of ranks (2); num_gpu_blocks, max_num_seqs, max_prefill_tokens and hicache's num_blocks are per rank, chunked_prefill_size is
              that of all ranks
`swa` and scheduler_recv_interval are not driven.  Each line of RESULTS holds, in the order of CASES,
    id, preemptions (retractions), num_passes (rounds in which a rank had a batch)
    requests   as sglang_scheduler.py, and `rank`
    passes     the first N (50): [start, end, [[rank, prefills, isl_sum, prefix_sum, decodes, context_sum, tokens_in_use, retracted], ...]]
    wait_ms    sum over rounds and ranks of the time a rank waited for the slowest
    host       with hicache: stored, loaded and waited as sglang_scheduler.py, of all ranks
or id and error.
"""
from collections import deque

import sglang_scheduler as ss


class Parts(ss.Parts):
    def with_ranks(self, n, nested):
        """The settings that each of n ranks has."""
        asked = {k: nested[k] for k in ("chunked_prefill_size", "schedule_conservativeness")}
        self.context.publish(self.ServerArgs(model_path=self.model_dir, device="cpu", skip_tokenizer_init=True, tp_size=n, dp_size=n, enable_dp_attention=n > 1, **asked),
                             role="scheduler")
        got = self.context.get_schedule()
        return {**nested, **{k: getattr(got, k) for k in asked}}


class Rank(ss.Run):
    def __init__(self, parts, case):
        super().__init__(parts, case, 0)
        self.all, self.coming = self.coming, deque()


class Ranks:
    def __init__(self, parts, case, keep):
        engine = dict(case["engine"])
        self.n, self.keep, self.rows = engine.pop("dp_size", 2), keep, case["rows"]
        nested = {**ss.NESTED, **engine.get("sglang", {})}
        if case.get("sglang", {}).get("swa") or nested["scheduler_recv_interval"] > 1: raise ValueError("setting not driven with ranks")
        engine["sglang"] = parts.with_ranks(self.n, nested)
        self.ranks = [Rank(parts, {**case, "engine": engine}) for _ in range(self.n)]
        self.coming, self.owner, self.passes, self.waited = deque(self.ranks[0].all), {}, [], 0.0

    def deal(self, now):
        while self.coming and self.coming[0][0] <= now:
            at, i = self.coming.popleft()
            self.owner[i] = len(self.owner) % self.n
            self.ranks[self.owner[i]].coming.append((at, i))

    def busy(self): return any(q.live for q in self.ranks)

    def plan(self, now):
        """All ranks choose their batch for one round."""
        self.deal(now)
        for q in self.ranks: q.arrive(now)
        return [q.plan() for q in self.ranks]

    def meet(self, now):
        """When all ranks have chosen: no earlier than the one that has stood still for a copy."""
        start = max(q.waited(now) for q in self.ranks)
        for q in self.ranks: q.tell(start)
        return start

    def launch(self, batches, now, start):
        ends = [q.launch(b, now, start) if b else start for q, b in zip(self.ranks, batches)]
        end = max(ends)
        self.passes.append([start, end, [[k, *q.passes[-1][2:]] for k, (q, b) in enumerate(zip(self.ranks, batches)) if b]])
        self.waited += sum(end - e for e in ends)
        for q in self.ranks: q.passes.clear()
        return end

    def finish(self, batches, end):
        for q, b in zip(self.ranks, batches):
            if b: q.finish(b, end)

    def rest(self, now):
        """No rank has anything to run: the time of the next arrival or, if requests wait, of the next end of a copy."""
        ends = [q.copies.next_end() for q in self.ranks if q.live and q.copies]
        at = [t for t in ends if t is not None] + ([self.coming[0][0]] if self.coming else [])
        if self.busy() and not at: raise RuntimeError("no progress")
        if not self.busy():
            for q in self.ranks: q.engine.new_token_ratio_tracker.reset()
        return max(now, min(at)) if at else now

    def note(self, batches):
        for q, b in zip(self.ranks, batches): q.engine.last_batch = b; q.check()

    def normal(self):
        now = 0.0
        while self.coming or self.busy():
            batches = self.plan(now)
            start = self.meet(now)
            if any(batches):
                end = self.launch(batches, now, start)
                self.finish(batches, end)
                now = end
            else: now = self.rest(start)
            self.note(batches)

    def overlapped(self):
        """All ranks choose the next batch when a round starts, before its results are known."""
        now = free_at = 0.0
        queue, ran = deque(), False
        while self.coming or self.busy() or queue:
            batches = self.plan(now)
            if any(q.engine.is_disable_overlap_for_batch(b, last_batch=q.engine.last_batch) for q, b in zip(self.ranks, batches)): raise RuntimeError("a batch that must not overlap")
            start = self.meet(now)
            if any(batches):
                free_at = self.launch(batches, now, max(start, free_at))
                queue.append(([b and b.copy() for b in batches], free_at))
                for q, b in zip(self.ranks, queue[-1][0]):
                    if b: q.engine.result_queue.append((b, free_at))  # where SGLang looks for last tokens in flight
            now = start
            if ran:
                done, end = queue.popleft()
                for q, b in zip(self.ranks, done):
                    if b: q.engine.result_queue.popleft()
                self.finish(done, end)
                now = max(now, end)
            elif not any(batches): now = self.rest(now)
            ran = any(batches)
            self.note(batches)

    def __call__(self):
        self.overlapped() if self.ranks[0].v["overlap"] else self.normal()
        host = {}
        if self.ranks[0].copies:
            copies = [q.copies for q in self.ranks]
            host = dict(host={kind: sum(c.count[name] for c in copies) for kind, name in (("stored", "store"), ("loaded", "load"))})
            host["host"]["waited"] = sum(c.clock.waited for c in copies)
            for q in self.ranks: q.copies.clock.now = float("inf"); q.engine.tree_cache.check_hicache_events()
        if left := sum(q.in_use() for q in self.ranks): raise RuntimeError(f"{left} tokens still in use at the end")
        requests = [dict(self.ranks[self.owner[i]].result[i], rank=self.owner[i]) for i in range(len(self.rows))]
        return dict(preemptions=sum(r["preemptions"] for r in requests), num_passes=len(self.passes), requests=requests, passes=self.passes[: self.keep], wait_ms=self.waited, **host)


if __name__ == "__main__": ss.sys.exit(ss.main(Ranks, __doc__, __file__, Parts))
