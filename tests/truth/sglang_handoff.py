#!/usr/bin/env python3
"""Run SGLang's own schedulers as prefill and decode workers, with a stand-in for its transfers, in virtual time: no
GPU, no model, no network.

usage: sglang_handoff.py CASES [-o RESULTS] [-k REGEX] [--passes N] [--python PYTHON]

Real are the schedulers of all workers with their event loops for disaggregation, the queues of both sides (bootstrap
and inflight; preallocation, retracted and transfer), the pools of requests, KV and metadata, and the copies of the KV
of retracted requests. Each loop runs in a thread, one at a time: the worker with the earliest clock goes on, prefill
workers first. What the driver adds is the transfer back end, in the place of SGLang's `fake` one and derived from it.
It times the transfers: a sender knows at once that the receiver has sent where its pages are; every chunk is submitted
when it is sent and lasts pages * kv_transfer_ms_per_block; both sides see the end of the last one when they look, and
with it come the metadata, the first token among them. A worker without a batch looks again when a request, a message
or the end of a transfer has come; a decode worker at once if the round before changed anything. Durations of batches
and installation: sglang_scheduler.py, which this script imports.

CASES as for sglang_scheduler.py, without `engine` and `hicache`, but with
    prefill_engine, decode_engine
        engine arguments of each side (block_size must be equal; clip_max_new_tokens does not reach the decode side,
        which has 4096)
    num_prefill_workers, num_decode_workers
        (1, 1) chosen in turn, both in order of arrival
    kv_transfer_ms_per_block
        (0) duration of a transfer per page
    kv_transfer_lanes
        "pair" (default): one chunk at a time between each prefill and decode worker, in order of submission;
        "unlimited"
    reserved_decode_tokens
        (512) SGLang's --num-reserved-decode-tokens
and `sglang`: overlap, ignore_eos and the ratios, of both sides. Everything else is SGLang's default: the decode side
has no radix cache, allocates before the prompt is computed (policy `early`), and polls in every round. Its retraction
backup is set to `cpu_tensor`, whose copies take no time here.

Each line of RESULTS holds, in the order of CASES, id and error, or
    id, preemptions (retractions, on decode workers), num_prefill_passes, num_decode_passes (batches)
    requests
        per row: row, arrival, prefill_worker, decode_worker, allocated (its pages are taken on the decode worker),
        queued (it joins the prefill worker's waiting queue), prefill_admit (its first batch is composed),
        prefill_reused, prefill_end (its last chunk is sent), transfer_end, released (on the prefill worker), first (it
        joins the running batch of the decode worker, which passes on the first token, made by the prefill worker),
        last, tokens, preemptions
    passes
        the first N (50) of all workers, by start: [worker, start, end, prefills, isl_sum, prefix_sum, decodes,
        context_sum, tokens_in_use, retracted]; worker is p0, p1, ..., d0, d1, ...
"""

import heapq
import threading
from collections import deque

import sglang_scheduler as ss

types = ss.types
HANDOFF = {"kv_transfer_ms_per_block": 0.0, "kv_transfer_lanes": "pair", "reserved_decode_tokens": 512}


class Stop(BaseException):
    """Ends a worker's loop."""


class Room:
    """What both sides know of the hand-off of one request."""

    def __init__(self):
        self.asked = self.end = self.source = self.target = None
        self.pages = self.sent = 0

    def over(self, now):
        return self.asked is not None and 0 < self.pages <= self.sent and self.end <= now


class Done:
    """Stands for the event that the results of a batch are in."""

    def __init__(self, worker, end):
        self.worker, self.end = worker, end

    def query(self):
        return self.worker.clock >= self.end

    def synchronize(self):
        self.worker.until(self.end)


class Parts(ss.Parts):
    """SGLang's classes for disaggregation as well."""

    def __init__(self, model_dir):
        super().__init__(model_dir)
        from sglang.srt.disaggregation import decode, prefill
        from sglang.srt.disaggregation.base.conn import KVArgs, KVPoll
        from sglang.srt.disaggregation.fake.conn import FakeKVReceiver, FakeKVSender
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        self.MHATokenToKVPool, self.DecodeReqToTokenPool, self.current = (
            MHATokenToKVPool,
            decode.DecodeReqToTokenPool,
            None,
        )
        parts, dist = self, self.torch.distributed
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

        class Sender(FakeKVSender):
            def __init__(self, mgr, bootstrap_addr, bootstrap_room, *_, **__):
                self.worker, self.room = parts.current, parts.current.run.rooms[bootstrap_room - 1]

            def init(self, num_kv_indices, aux_index=None):
                self.room.pages, self.room.source = num_kv_indices, (self.worker, aux_index)
                self.room.result["queued"] = self.worker.clock

            def send(self, kv_indices, *_, **__):
                self.worker.run.submit(self.room, len(kv_indices), self.worker.clock)

            def poll(self):
                r, now = self.room, self.worker.clock
                if r.asked is None:
                    return KVPoll.Bootstrapping
                return KVPoll.Success if r.over(now) else KVPoll.Transferring if r.sent else KVPoll.WaitingForInput

            def pop_decode_prefix_len(self):
                return 0

            def clear(self):
                self.room.result["released"] = self.worker.clock

        class Receiver(FakeKVReceiver):
            def __init__(self, mgr, bootstrap_addr, bootstrap_room=None, *_, **__):
                self.worker, self.room, self.bootstrap_room, self.ready = (
                    parts.current,
                    parts.current.run.rooms[bootstrap_room - 1],
                    bootstrap_room,
                    False,
                )

            def init(self, *_):
                self.ready = True

            def send_metadata(self, kv_indices, aux_index=None, *_, **__):
                self.room.asked, self.room.target = self.worker.clock, (self.worker, aux_index)
                self.room.result["allocated"] = self.worker.clock
                self.room.owner.ring(self.worker.clock)

            def poll(self):
                if not self.ready:
                    return KVPoll.Bootstrapping
                return KVPoll.Success if self.room.over(self.worker.clock) else KVPoll.WaitingForInput

            def clear(self):
                pass

        info = ss.Quiet(dp_size=1, attn_dp_size=1)

        def manager(args, *_, **__):
            return ss.Quiet(
                kv_args=args, prefill_info_table={"prefill:1": info}, try_ensure_parallel_info=lambda address: True
            )

        for m in (decode, prefill):
            m.get_kv_class = lambda backend, kind: {
                "kvargs": KVArgs,
                "manager": manager,
                "sender": Sender,
                "receiver": Receiver,
            }.get(kind.value)

    def worker(self, mode, case, e, n, v, longest):
        """A Scheduler with everything its event loop for disaggregation touches."""
        plain, rows, modes = self.ServerArgs, self.ReqToTokenPool, self.DisaggregationMode
        more = {
            "disaggregation_mode": mode,
            "disaggregation_transfer_backend": "nixl",
            "num_reserved_decode_tokens": case["reserved_decode_tokens"],
            "max_running_requests": e["max_num_seqs"],
        }
        if mode == "decode":
            more["disaggregation_decode_retraction_backup"] = "cpu_tensor"
        self.ServerArgs, self.DisaggregationMode = (
            lambda **k: plain(**k, **more),
            types.SimpleNamespace(NULL=modes(mode)),
        )

        def extra():
            return self.context.get_disagg().disaggregation_decode_extra_slots

        if mode == "decode":
            self.ReqToTokenPool = lambda **k: self.DecodeReqToTokenPool(**k, pre_alloc_size=extra())
        try:
            s = self.scheduler(e, n, v, longest)
        finally:
            self.ServerArgs, self.ReqToTokenPool, self.DisaggregationMode = plain, rows, modes
        if (
            (got := self.context.get_disagg()).num_reserved_decode_tokens != case["reserved_decode_tokens"]
            or got.disaggregation_decode_allocation_policy != "early"
            or got.disaggregation_decode_polling_interval != 1
        ):
            raise ValueError("SGLang changed a setting")
        hf, tokens = types.SimpleNamespace(architectures=ss.MODEL["architectures"]), s.max_total_num_tokens
        s.model_config.__dict__.update(
            hf_config=hf,
            hf_text_config=hf,
            hidden_size=16,
            dtype=self.torch.float16,
            num_hidden_layers=1,
            num_key_value_heads=1,
            get_total_num_kv_heads=lambda: 1,
        )
        s.tp_worker.is_hybrid_swa = False
        s.tp_worker.model_runner.__dict__.update(
            effective_logical_max_total_num_tokens=tokens, swa_max_total_num_tokens=0, kv_cache_dtype_str="auto"
        )
        s.token_to_kv_pool_allocator._kvcache = self.MHATokenToKVPool(
            tokens, e["block_size"], self.torch.float16, 1, 1, 1, "cpu", False
        )

        def none(*_, **__):
            return None

        s.__dict__.update(
            server_args=self.context.get_server_args(),
            gpu_id=0,
            rust_server=None,
            random_seed=0,
            gracefully_exit=False,
            _deferred_input_requests=[],
            _engine_paused=False,
            enable_decode_hicache=False,
            enable_fpm=False,
            return_health_check_ipcs=deque(),
            future_map=ss.Quiet(),
            load_publisher=ss.Quiet(),
            output_streamer=ss.Quiet(),
            publish_load_snapshot=none,
            _record_step_counters=none,
            attn_cp_cpu_group=None,
            attn_tp_cpu_group=None,
            tp_cpu_group=None,
            _war_barrier_enabled=False,
            schedule_stream=ss.Quiet(),
            forward_stream=ss.Quiet(),
        )
        one = types.SimpleNamespace(cpu_group=None, world_size=1, rank_in_group=0, size=1)
        s.ranks = self.context.get_parallel().override(
            **dict.fromkeys(["tp_rank", "pp_rank", "attn_tp_rank", "attn_cp_rank", "attn_dp_rank", "dp_rank"], 0),
            **dict.fromkeys(["attn_tp_group", "attn_cp_group", "tp_group", "pp_group"], one),
        )
        s.ranks.__enter__()
        s.init_disaggregation()
        s.init_running_status()  # whether requests whose last token is in flight sit the next batch out: not here
        return s


class Worker:
    """One scheduler, whose loop runs in a thread of its own when it is its turn."""

    def __init__(self, run, mode, number, e, n, longest):
        self.run, self.mode, self.name, self.e = run, mode, f"{mode[0]}{number}", e
        run.parts.current = self
        self.engine = s = run.parts.worker(
            mode, run.case, e, n, {**run.v, "disable_radix_cache": mode == "decode"}, longest
        )
        run.contexts[mode] = run.parts.context.snapshot_context()
        self.inbox, self.alarms, self.clock, self.free_at, self.asleep, self.done, self.error = (
            deque(),
            [],
            0.0,
            0.0,
            False,
            False,
            None,
        )
        self.live, self.lost, self.count, self.state = {}, 0, 0, None
        s.request_receiver = ss.Quiet(recv_requests=self.receive)
        s.process_input_requests, s.run_batch, s.on_idle = self.take, self.launch, self.rest
        stream = ss.Quiet(stream_output=self.stream)
        s.output_streamer = stream
        object.__setattr__(s.batch_result_processor, "output_streamer", stream)
        self.turn, self.thread = threading.Semaphore(0), threading.Thread(target=self.loop, daemon=True)

    def loop(self):
        self.turn.acquire()
        self.run.parts.torch.set_num_threads(1)
        try:
            if not self.run.over:
                getattr(
                    self.engine, f"event_loop_{'overlap' if self.run.v['overlap'] else 'normal'}_disagg_{self.mode}"
                )()
        except Stop:
            pass
        except BaseException as e:
            self.error = e
        self.done = True
        self.run.turn.release()

    def pause(self):
        """Let the others go on until it is this worker's turn again."""
        if not self.run.over and (first := self.run.first()) and first[2] is self:
            self.wake(first[0])
            return
        if not self.run.over:
            self.run.turn.release()
            self.turn.acquire()
        if self.run.over:
            raise Stop

    def until(self, time):
        if time > self.clock:
            self.clock = time
            self.pause()

    def ring(self, at):
        heapq.heappush(self.alarms, at)

    def next_time(self):
        """When the worker goes on; None if nothing will make it."""
        if self.done or not self.asleep:
            return None if self.done else self.clock
        times = [t for t, _ in list(self.inbox)[:1]] + self.alarms[:1]
        return max(self.clock, min(times)) if times else None

    def wake(self, now):
        self.clock, self.asleep = now, False
        while self.alarms and self.alarms[0] <= now:
            heapq.heappop(self.alarms)

    def receive(self, **_):
        got = []
        while self.inbox and self.inbox[0][0] <= self.clock:
            got.append(self.inbox.popleft())
        return got

    def take(self, got):
        for _, i in got:
            q = self.live[str(i)] = self.run.request(i)
            self.engine._add_request_to_queue(q)

    def launch(self, batch, *_, **__):
        """Stands for running a batch."""
        s, e, run = self.engine, self.e, self.run
        count = isl = prefix = decodes = context = 0
        if batch.forward_mode.is_extend():
            for q, n, p in zip(batch.reqs, batch.extend_lens, batch.prefix_lens, strict=False):
                count, isl, prefix = count + 1, isl + n + p, prefix + p
                r = run.result[int(q.rid)]
                if r["prefill_admit"] is None:
                    r.update(prefill_admit=self.clock, prefill_reused=p)
        else:
            decodes, context = len(batch.reqs), int(batch.seq_lens_cpu.sum())
        start = max(self.clock, self.free_at)
        end = start + ss.prefill_ms(count, isl, prefix, e["speedup_ratio"])
        self.free_at = end = end + ss.decode_ms(
            decodes, context, s.max_total_num_tokens, e["speedup_ratio"] * e["decode_speedup_ratio"]
        )
        retracted = sum(q.retraction_count for q in self.live.values()) - self.lost
        self.lost += retracted
        used = s.max_total_num_tokens - s.token_to_kv_pool_allocator.available_size() - s.tree_cache.evictable_size()
        run.passes.append((self.name, start, end, count, isl, prefix, decodes, context, used, retracted))
        self.count += 1
        made = run.parts.torch.tensor(
            [(1 << 30) + int(q.rid) for q in batch.reqs], dtype=run.parts.torch.int64
        )  # no prompt has them, and they fit the metadata
        if not run.v["overlap"]:
            self.until(end)
        return run.parts.GenerationBatchResult(
            next_token_ids=made, copy_done=Done(self, end) if run.v["overlap"] else None
        )

    def stream(self, reqs, *_, **__):
        """What SGLang passes on to its clients."""
        for q in reqs:
            r, n = self.run.result[int(q.rid)], len(q.output_ids)
            if q.to_finish is not None or self.mode == "prefill":
                continue
            if n > r["tokens"]:
                r.update(tokens=n, last=self.clock)
            if r["first"] is None:
                r["first"] = self.clock

    def rest(self):
        """Stands for looking again and again: a decode worker at once, if this round has changed anything."""
        if self.mode == "decode":
            s, was = self.engine, self.state
            self.state = (
                self.clock,
                len(s.running_batch.reqs),
                len(s.waiting_queue),
                s.token_to_kv_pool_allocator.available_size(),
                *(
                    len(q)
                    for q in (
                        s.disagg_decode_prealloc_queue.queue,
                        s.disagg_decode_prealloc_queue.retracted_queue,
                        s.disagg_decode_transfer_queue.queue,
                    )
                ),
            )
            if self.state != was:
                return
        self.asleep = True
        self.pause()


class Handoff:
    """One case: arrivals, the order of the workers, transfers, and what came of each request."""

    def __init__(self, parts, case, keep):
        self.parts, self.keep, self.rows, self.per_hash = parts, keep, case["rows"], case.get("trace_block_size", 512)
        self.case = {**HANDOFF, **{k: x for k, x in case.items() if k in HANDOFF}}
        self.v = {**ss.SGLANG, **case.get("sglang", {})}
        if self.v["swa"] or self.v["mixed_chunk"] or self.v["disable_radix_cache"] or case.get("hicache"):
            raise ValueError("setting not driven in two pools")
        self.turn, self.over, self.busy, self.passes, self.contexts, self.mode, self.steps, self.seen = (
            threading.Semaphore(0),
            False,
            {},
            [],
            {},
            None,
            0,
            0,
        )
        self.result, self.rooms, self.sides = [None] * len(self.rows), [Room() for _ in self.rows], []
        longest = max(r["input_length"] + r["output_length"] for r in self.rows)
        for mode in ("prefill", "decode"):
            given = case[f"{mode}_engine"]
            e = {**ss.ENGINE, **{k: x for k, x in given.items() if k in ss.ENGINE}}
            n = {**ss.NESTED, **{k: x for k, x in given.get("sglang", {}).items() if k in ss.NESTED}}
            self.sides.append([Worker(self, mode, k, e, n, longest) for k in range(case.get(f"num_{mode}_workers", 1))])
        self.workers = self.sides[0] + self.sides[1]
        if len({w.e["block_size"] for w in self.workers}) > 1:
            raise ValueError("block_size differs")
        start = min(r["timestamp"] for r in self.rows)
        for k, (at, i) in enumerate(
            sorted(((float(r["timestamp"] - start), i) for i, r in enumerate(self.rows)), key=lambda x: x[0])
        ):
            p, d = (side[k % len(side)] for side in self.sides)
            self.result[i] = dict(
                row=i,
                arrival=at,
                prefill_worker=int(p.name[1:]),
                decode_worker=int(d.name[1:]),
                **dict.fromkeys(
                    [
                        "allocated",
                        "queued",
                        "prefill_admit",
                        "prefill_reused",
                        "prefill_end",
                        "transfer_end",
                        "released",
                        "first",
                        "last",
                    ]
                ),
                tokens=0,
                preemptions=0,
            )
            self.rooms[i].result, self.rooms[i].owner, self.rooms[i].taker = self.result[i], p, d
            for w in (p, d):
                w.inbox.append((at, i))

    def request(self, i):
        q = self.parts.request(i, self.rows[i], self.per_hash, self.v["ignore_eos"])
        q.bootstrap_host, q.bootstrap_port, q.bootstrap_room = "prefill", 1, i + 1
        return q

    def submit(self, room, pages, now):
        lane = (room.owner.name, room.taker.name) if self.case["kv_transfer_lanes"] == "pair" else id(room)
        room.end = self.busy[lane] = max(now, self.busy.get(lane, 0.0)) + pages * self.case["kv_transfer_ms_per_block"]
        room.sent += pages
        if room.sent >= room.pages:
            room.result.update(prefill_end=now, transfer_end=room.end)
            (p, a), (d, b) = (
                room.source,
                room.target,
            )  # the metadata, with the first token in them, come along with the last chunk
            for k, t in vars(p.engine.disagg_metadata_buffers).items():
                if hasattr(t, "shape"):
                    getattr(d.engine.disagg_metadata_buffers, k)[b] = t[a]
            for w in (room.owner, room.taker):
                w.ring(room.end)

    def first(self):
        """The time of the worker with the earliest clock, its number and itself."""
        self.steps += 1
        if len(self.passes) > self.seen:
            self.steps, self.seen = 0, len(self.passes)
        if self.steps > 10000:
            raise RuntimeError("no progress")
        return min(
            ((t, k, w) for k, w in enumerate(self.workers) if (t := w.next_time()) is not None),
            key=lambda x: x[:2],
            default=None,
        )

    def step(self):
        """Lets the worker with the earliest clock go on; returns whether there was one."""
        first = self.first()
        if first is None:
            return False
        now, _, w = first
        w.wake(now)
        self.parts.current = w
        if w.mode != self.mode:
            self.mode = w.mode
            self.parts.context.restore_context(self.contexts[w.mode])
        w.turn.release()
        self.turn.acquire()
        if w.error:
            raise RuntimeError(f"{w.name}: {type(w.error).__name__}: {w.error}")
        return True

    def __call__(self):
        for w in self.workers:
            w.thread.start()
        try:
            while self.step():
                pass
        finally:
            self.over = True
            for w in self.workers:
                w.turn.release()
                w.thread.join()
        for i, r in enumerate(self.result):
            if r["tokens"] != self.rows[i]["output_length"]:
                raise RuntimeError(f"request {i} ends after {r['tokens']} tokens")
            r["preemptions"] = self.rooms[i].taker.live[str(i)].retraction_count
        self.passes.sort(key=lambda p: p[1])
        return {
            "preemptions": sum(r["preemptions"] for r in self.result),
            "num_prefill_passes": sum(w.count for w in self.sides[0]),
            "num_decode_passes": sum(w.count for w in self.sides[1]),
            "requests": self.result,
            "passes": self.passes[: self.keep],
        }


if __name__ == "__main__":
    ss.sys.exit(ss.main(Handoff, __doc__, __file__, Parts))
