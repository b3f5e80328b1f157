#!/usr/bin/env python3
"""Run vLLM's own V1 schedulers as prefill and decode workers with the NixlConnector, in virtual time: no GPU, no model, no network, no NIXL.

usage: vllm_handoff.py CASES [-o RESULTS] [-k REGEX] [--passes N] [--python PYTHON]

Real are the schedulers of all workers and the scheduler side of the connector: who waits for a load, which blocks are taken for it, which blocks a prefill worker
goes on holding.  The driver adds what the connector's workers do: it times the transfers, and tells the schedulers that one has ended.  Prefill workers get each
request with max_tokens 1, decode workers get it with the prefill worker's answer when that pass ends, as vLLM's own proxies do.  Durations of passes come from the
polynomial model (vllm_scheduler.py, which this script imports and whose installation it shares), with two conventions: a pass of a prefill worker costs its prefill
part only, and the prompt token that a decode worker computes again after a load costs a decode only.

CASES as for vllm_scheduler.py, without `engine`, but with
    prefill_engine, decode_engine            engine arguments of each side (block_size must be equal)
    num_prefill_workers, num_decode_workers  (1, 1) chosen in turn: the prefill worker in order of arrival, the decode worker in order of prefill end
    kv_transfer_ms_per_block                 (0) duration of a transfer per block
    kv_transfer_lanes                        "pair" (default): one transfer at a time between each prefill and decode worker, in order of submission; "unlimited"
and `vllm` (see vllm_scheduler.py; synchronous scheduling only).
Each line of RESULTS holds, in the order of CASES,
    id, preemptions (on decode workers), prefill_preemptions, num_prefill_passes, num_decode_passes
    requests   per row: row, arrival, prefill_worker, prefill_admit, prefill_reused, prefill_end, decode_worker, load_at (start of the decode pass that asks for the
               transfer), load_blocks, transfer_start, transfer_end, released (its blocks are free on the prefill worker), reused (tokens found on the decode worker
               when the load was asked for), admit (start of the first decode pass that serves it), first, last, tokens, preemptions, prefill_preemptions
    passes     the first N (50) of all workers, by start: [worker, start, end, prefills, isl_sum, prefix_sum, decodes, active_blocks, scheduled_tokens, preempted];
               worker is p0, p1, ..., d0, d1, ...
    prefill_peak, decode_peak   most blocks taken on one worker of each kind
or id and error.
"""
import argparse, heapq, json, os, re, sys, tempfile
from collections import deque

import vllm_scheduler as vs

REMOTE = dict(do_remote_decode=True, do_remote_prefill=False, remote_engine_id=None, remote_block_ids=None, remote_host=None, remote_port=None)


class Parts(vs.Parts):
    def worker(self, e, v, max_model_len, name):
        """A scheduler with the NixlConnector; as vllm_scheduler.py's, otherwise."""
        from vllm.config import KVTransferConfig
        plain = self.VllmConfig
        transfer = KVTransferConfig(kv_connector="NixlConnector", kv_role="kv_producer" if name[0] == "p" else "kv_consumer", engine_id=name)
        self.VllmConfig = lambda **k: plain(**k, kv_transfer_config=transfer)
        try: return self.scheduler(e, v, max_model_len)
        finally: self.VllmConfig = plain

    def handed(self, rid, row, tokens_per_hash, block_size, arrival, output, params):
        made = self.request(rid, {**row, "output_length": output}, tokens_per_hash, block_size, arrival)
        return self.Request(request_id=rid, prompt_token_ids=made.prompt_token_ids, pooling_params=None, arrival_time=arrival,
                            sampling_params=self.SamplingParams(max_tokens=output, ignore_eos=True, extra_args={"kv_transfer_params": params}),
                            block_hasher=self.get_request_block_hasher(block_size, self.hash))


class Worker:
    """One engine: what has arrived, what it runs, and the transfers it waits for."""

    def __init__(self, run, name, e, limit):
        self.run, self.name, self.e, self.prefill = run, name, e, name[0] == "p"
        self.engine = run.parts.worker(e, run.v, limit, name)
        self.pool = self.engine.kv_cache_manager.block_pool
        self.inbox, self.live, self.transfers, self.loaded = deque(), {}, [], set()  # transfers: (end, row), its own loads or readings of its blocks
        self.clock, self.asleep, self.peak, self.passes = 0.0, True, 0, 0

    def next_time(self):
        """When the worker composes its next pass; None if nothing will make it."""
        if not self.asleep: return self.clock
        times = [t for t, *_ in list(self.inbox)[:1] + self.transfers]
        return max(self.clock, min(times)) if times else None

    def step(self, now):
        run, rows = self.run, self.run.result
        while self.inbox and self.inbox[0][0] <= now:
            at, i, output, params = self.inbox.popleft()
            self.live[str(i)] = run.parts.handed(str(i), run.rows[i], run.per_hash, self.e["block_size"], at, output, params)
            self.engine.add_request(self.live[str(i)])
        out = self.engine.schedule()
        count = isl = prefix = 0
        ready = []
        for rid, n in out.num_scheduled_tokens.items():
            q, r = self.live[rid], rows[int(rid)]
            end, prompt = q.num_computed_tokens, q.num_prompt_tokens
            key = "prefill_admit" if self.prefill else "admit"
            if r[key] is None:
                r[key] = now
                if self.prefill: r["prefill_reused"] = end - n
            if rid in self.loaded: self.loaded.discard(rid)
            elif end - n < prompt: count, isl, prefix = count + 1, isl + min(end, prompt), prefix + end - n
            if not q.is_prefill_chunk: ready.append(rid)
        lost = list(out.preempted_req_ids or ())
        for rid in lost: rows[int(rid)]["prefill_preemptions" if self.prefill else "preemptions"] += 1
        active = self.pool.num_gpu_blocks - 1 - self.pool.get_num_free_blocks()
        self.peak = max(self.peak, active)
        end = now + vs.prefill_ms(count, isl, prefix, self.e["speedup_ratio"])
        if not self.prefill: end += vs.decode_ms(len(ready), active, self.e["num_gpu_blocks"], self.e["speedup_ratio"] * self.e["decode_speedup_ratio"])
        tokens = out.total_num_scheduled_tokens
        if tokens or lost:
            self.passes += 1
            run.passes.append((self.name, now, end, count, isl, prefix, 0 if self.prefill else len(ready), active, tokens, len(lost)))
        if not self.prefill: self.ask(out.kv_connector_metadata, now)
        # Transfers are looked at when the pass has been launched, and reported when it ends.
        done = sorted(x for x in self.transfers if x[0] <= now)
        self.transfers = [x for x in self.transfers if x not in done]
        self.finish(out, end, ready, [str(i) for _, i in done])  # a list: vLLM takes a set and would free in its order
        self.clock, self.asleep = end, not (tokens or lost or done)
        run.still = 0 if tokens and not lost or done else run.still + 1
        if run.still > 10000: raise RuntimeError("no progress")

    def ask(self, meta, now):
        """Submits the transfers that this pass asked for."""
        run = self.run
        for rid, m in meta.reqs_to_recv.items():
            i = int(rid)
            r = run.result[i]
            n = len(m.local_block_ids[0]) if m.local_block_ids else 0
            lane = (r["prefill_worker"], self.name) if run.lanes == "pair" else rid
            start = max(now, run.busy.get(lane, 0.0))
            end = run.busy[lane] = start + n * run.ms
            r.update(load_at=now, load_blocks=n, transfer_start=start, transfer_end=end)
            prompt = self.live[rid].num_prompt_tokens
            r["reused"] = (-(-prompt // self.e["block_size"]) - n) * self.e["block_size"]
            self.transfers.append((end, i))
            run.prefills[r["prefill_worker"]].transfers.append((end, i))

    def finish(self, out, end, ready, done):
        from vllm.v1.outputs import KVConnectorOutput
        run, rows = self.run, self.run.result
        ids, ready = list(out.num_scheduled_tokens), set(ready)
        tokens = [[vs.GENERATED + (int(r) << 32) + self.live[r].num_output_tokens] if r in ready else [] for r in ids]
        moved = KVConnectorOutput(finished_sending=done or None) if self.prefill else KVConnectorOutput(finished_recving=done or None)
        made = run.parts.ModelRunnerOutput(req_ids=ids, req_id_to_index={r: i for i, r in enumerate(ids)}, sampled_token_ids=tokens, kv_connector_output=moved)
        for rid in done:
            if self.prefill: rows[int(rid)]["released"] = end
            else: self.loaded.add(rid)
        for group in self.engine.update_from_output(out, made).values():
            for o in group.outputs:
                if not o.new_token_ids: continue
                i = int(o.request_id)
                r = rows[i]
                if self.prefill:
                    r["prefill_end"] = end
                    heapq.heappush(run.handoffs, (end, int(self.name[1:]), run.order, i, o.kv_transfer_params)); run.order += 1
                else:
                    r["tokens"] += len(o.new_token_ids); r["last"] = end
                    if r["first"] is None: r["first"] = end
                if o.finish_reason is not None: del self.live[o.request_id]


class Handoff:
    def __init__(self, parts, case, keep):
        self.parts, self.keep, self.rows, self.per_hash = parts, keep, case["rows"], case.get("trace_block_size", 512)
        self.v = {**vs.VLLM, **case.get("vllm", {})}
        if self.v["async_scheduling"]: raise ValueError("async_scheduling: not driven here")
        self.ms, self.lanes = case.get("kv_transfer_ms_per_block", 0.0), case.get("kv_transfer_lanes", "pair")
        sides = [{**vs.ENGINE, **{k: x for k, x in case[f"{s}_engine"].items() if k in vs.ENGINE}} for s in ("prefill", "decode")]
        limit = min(e["num_gpu_blocks"] * e["block_size"] for e in sides)
        for i, r in enumerate(self.rows):
            if r["input_length"] + r["output_length"] > limit: raise ValueError(f"row {i}: {r['input_length']} + {r['output_length']} tokens are more than a model of {limit} allows")
        self.result, self.passes, self.handoffs, self.busy, self.still, self.order = [None] * len(self.rows), [], [], {}, 0, 0
        n, m = case.get("num_prefill_workers", 1), case.get("num_decode_workers", 1)
        self.prefills = [Worker(self, f"p{k}", sides[0], limit) for k in range(n)]
        self.decodes = [Worker(self, f"d{k}", sides[1], limit) for k in range(m)]
        start = min(r["timestamp"] for r in self.rows)
        for k, (at, i) in enumerate(sorted(((float(r["timestamp"] - start), i) for i, r in enumerate(self.rows)), key=lambda x: x[0])):
            self.result[i] = dict(row=i, arrival=at, prefill_worker=k % n, prefill_admit=None, prefill_reused=None, prefill_end=None, decode_worker=None, load_at=None, load_blocks=None,
                                  transfer_start=None, transfer_end=None, released=None, reused=None, admit=None, first=None, last=None, tokens=0, preemptions=0, prefill_preemptions=0)
            self.prefills[k % n].inbox.append((at, i, 1, dict(REMOTE)))

    def __call__(self):
        sent = 0
        while True:
            times = [(t, k, w) for k, w in enumerate(self.prefills + self.decodes) if (t := w.next_time()) is not None]
            first = min(times, key=lambda x: x[:2], default=None)
            if self.handoffs and (first is None or self.handoffs[0][0] <= first[0]):
                at, _, _, i, params = heapq.heappop(self.handoffs)
                k = sent % len(self.decodes); sent += 1
                self.result[i]["decode_worker"] = k
                self.decodes[k].inbox.append((at, i, self.rows[i]["output_length"], params))
            elif first is None: break
            else: first[2].step(first[0])
        if any(r["last"] is None or r["released"] is None for r in self.result): raise RuntimeError("requests left over")
        self.passes.sort(key=lambda p: p[1])
        return dict(preemptions=sum(r["preemptions"] for r in self.result), prefill_preemptions=sum(r["prefill_preemptions"] for r in self.result),
                    num_prefill_passes=sum(w.passes for w in self.prefills), num_decode_passes=sum(w.passes for w in self.decodes), requests=self.result, passes=self.passes[: self.keep],
                    prefill_peak=max(w.peak for w in self.prefills), decode_peak=max(w.peak for w in self.decodes))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases"); ap.add_argument("-o", "--out"); ap.add_argument("-k", default="", metavar="REGEX")
    ap.add_argument("--passes", type=int, default=50, metavar="N"); ap.add_argument("--python", default=os.environ.get("VLLM_PYTHON"))
    a = ap.parse_args()
    if a.python and os.path.abspath(a.python) != os.path.abspath(sys.executable):
        os.environ.pop("VLLM_PYTHON", None)
        os.execv(a.python, [a.python, os.path.abspath(__file__), a.cases, "-k", a.k, "--passes", str(a.passes), *(["-o", a.out] if a.out else [])])
    cases = [c for c in vs.load(a.cases) if re.search(a.k, c["id"])]
    bad = 0
    with tempfile.TemporaryDirectory() as d, (open(a.out, "w") if a.out else sys.stdout) as f:
        parts = Parts(d)
        for c in cases:
            try: r = Handoff(parts, c, a.passes)()
            except (ValueError, RuntimeError) as e: r = dict(error="; ".join(x.strip() for x in str(e).splitlines()[:2])); bad += 1
            f.write(json.dumps({"id": c["id"], **r}) + "\n"); f.flush()
    print(f"{len(cases)} cases, {bad} with errors", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__": sys.exit(main())
