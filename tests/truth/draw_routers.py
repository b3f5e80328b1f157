"""Compare our router policies with the real routers on fresh scripts, and print the table of docs/routers.md.

usage: draw_routers.py --python PYTHON [-n REQUESTS] [--only REGEX] [--seed N] [--keep FILE]

PYTHON is that of an environment with sglang-router, smg and vllm-router (installation in the head of routers.py). For
each policy, scripts with so many requests altogether are drawn, and played with the real router before stub workers. A
Go test then says of each decision whether our rule allows it, given the decisions before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import routers

ROOT = Path(__file__).resolve().parents[2]
PORTS = {"sglang-router": 21001, "vllm-router": 22001, "smg": 23001}
WITHOUT_WARM_UP = {"worker_warmup_secs": 0, "worker_warmup_divert_every": 0}
PAIRS = {"decode_policy": "round_robin", "bucket_adjust_interval_secs": 1000}

Case = dict[str, Any]


def cache(r: random.Random) -> dict[str, Any]:
    if r.random() < 0.2:
        return {}
    return {
        "cache_threshold": r.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9]),
        "balance_abs_threshold": r.choice([1, 2, 4, 8, 64]),
        "balance_rel_threshold": r.choice([1.0, 1.1, 1.5, 2.0, 3.0]),
    }


def bucket(r: random.Random) -> dict[str, Any]:
    sums = {"balance_abs_threshold": r.choice([64, 1000, 5000]), "balance_rel_threshold": r.choice([1.1, 1.5, 2.0])}
    return {"prefill_policy": "bucket"} | PAIRS | sums


def manual(r: random.Random) -> dict[str, Any]:
    return {"assignment_mode": r.choice(["random", "min_load", "min_group"])}


def evicting(r: random.Random, scale: int) -> dict[str, Any]:
    sizes = {"eviction_interval_secs": 4, "max_tree_size": scale * r.choice([100, 200, 450])}
    return {"cache_threshold": r.choice([0.3, 0.5]), "balance_abs_threshold": 3, "balance_rel_threshold": 1.1} | sizes


def nothing(_: random.Random) -> dict[str, Any]:
    return {}


# Router, policy, name, kind, what options it gets, and whether requests have keys.
POLICIES: list[tuple[str, str, str, str, Any, bool]] = [
    ("sglang-router", "cache_aware", "cache_aware", "exact", cache, False),
    ("sglang-router", "cache_aware", "cache_aware, eviction", "exact", lambda r: evicting(r, 1), False),
    ("sglang-router", "bucket", "bucket", "exact", bucket, False),
    ("sglang-router", "manual", "manual", "random", manual, True),
    ("sglang-router", "round_robin", "round_robin", "exact", nothing, False),
    ("sglang-router", "random", "random", "statistical", nothing, False),
    ("sglang-router", "power_of_two", "power_of_two", "statistical", nothing, False),
    ("vllm-router", "cache_aware", "cache_aware", "exact", cache, False),
    ("vllm-router", "cache_aware", "cache_aware, eviction", "exact", lambda r: evicting(r, 12), False),
    ("vllm-router", "consistent_hash", "consistent_hash", "exact", nothing, True),
    ("vllm-router", "sticky_least_loaded", "sticky_least_loaded", "exact", nothing, True),
    ("vllm-router", "power_of_two", "power_of_two", "random", nothing, False),
    ("vllm-router", "round_robin", "round_robin", "exact", nothing, False),
    ("vllm-router", "random", "random", "statistical", nothing, False),
    ("smg", "cache_aware", "cache_aware", "random", lambda r: cache(r) | WITHOUT_WARM_UP, False),
    ("smg", "least_load", "least_load", "random", nothing, False),
    ("smg", "power_of_two", "power_of_two", "random", nothing, False),
    ("smg", "consistent_hashing", "consistent_hashing", "exact", nothing, True),
    ("smg", "prefix_hash", "prefix_hash", "exact", nothing, False),
    ("smg", "manual", "manual", "random", manual, True),
    ("smg", "round_robin", "round_robin", "exact", nothing, False),
]
LONGEST = 1000
EVICTING_REQUESTS = 72
MOST_EVICTING = 720  # altogether: each script takes ten seconds


def prompts(r: random.Random, count: int, lengths: tuple[int, int], depth: int) -> list[list[list[Any]]]:
    """Prompts as paths of a tree of pieces, so that they share prefixes of all lengths; some end within a piece."""
    tree: dict[tuple[int, ...], list[Any]] = {}
    all_of: list[list[list[Any]]] = []
    for _ in range(count):
        path: tuple[int, ...] = ()
        parts: list[list[Any]] = []
        for _ in range(1 + r.randrange(depth)):
            path += (min(int(r.expovariate(0.6)), 8),)
            if path not in tree:
                tree[path] = [f"{r.random():.6f}", r.randint(*lengths)]
            parts.append(list(tree[path]))
        if r.random() < 0.2:
            parts[-1][1] = r.randint(1, parts[-1][1])
        all_of.append(parts)
    return all_of


def script(r: random.Random, first: int, end: int, most: int) -> Iterator[str]:
    """Requests that are sent in turn, and are answered in any order. At most so many are under way."""
    under_way: list[int] = []
    for i in range(first, end):
        yield f"s{i}"
        under_way.append(i)
        while under_way and (len(under_way) >= most or r.random() < 0.45):
            yield f"e{under_way.pop(r.randrange(len(under_way)))}"
    for i in under_way:
        yield f"e{i}"


def case(r: random.Random, policy: tuple[str, str, str, str, Any, bool], number: int, count: int) -> Case:
    """A script for a policy, which is one of POLICIES."""
    router, name, label, kind, options, keyed = policy
    evicts = "eviction" in label
    made: Case = {
        "id": f"{router} {label} {number}",
        "label": label,
        "router": router,
        "policy": name,
        "kind": kind,
        "port": PORTS[router],
        "options": options(r),
    }
    if name == "bucket":
        made |= {"prefill": 3, "decode": 2}
        lengths = (1, 2000)
    else:
        made["workers"] = 4 if kind == "statistical" else r.choice([2, 3, 4, 6])
        lengths = (20, 60) if evicts else r.choice([(1, 30), (1, 200), (600, 900)])
    count = EVICTING_REQUESTS if evicts else count
    made["requests"] = [{"parts": parts} for parts in prompts(r, count, lengths, 1 if name == "bucket" else 3)]
    if keyed:
        header = "X-Session-ID" if router == "vllm-router" else "X-SMG-Routing-Key"
        for request in made["requests"]:
            request["headers"] = {header: f"key-{r.randrange(count // 3)}"}
    if evicts:  # the tree is looked at every 4 seconds: once in each pause, and not while requests come
        third = count // 3
        made["settle"] = 0.002
        made["events"] = [*script(r, 0, third, 6), "p4.0", *script(r, third, 2 * third, 6), "p4.0"]
        made["events"] += script(r, 2 * third, count, 6)
    else:
        made["events"] = list(script(r, 0, count, r.choice([4, 10, 40])))
    return made


def cases_of(seed: int, requests: int, only: str) -> Iterator[Case]:
    for policy in POLICIES:
        if re.search(only, f"{policy[0]} {policy[2]}"):
            r = random.Random(f"{seed} {policy[0]} {policy[2]}")  # the same whichever policies are drawn
            sent = number = 0
            wanted = min(requests, MOST_EVICTING) if "eviction" in policy[2] else requests
            while sent < wanted:
                drawn = case(r, policy, number, min(LONGEST, max(wanted - sent, 30)))
                yield drawn
                sent, number = sent + len(drawn["requests"]), number + 1


def play(drawn: Case, python: str) -> Case:
    """Adds what the real router did."""
    result = routers.run_case(drawn, dict.fromkeys(routers.MODULES, python))
    if result is None or result.get("codes"):
        raise SystemExit(f"{drawn['id']}: not every request was answered: {result and result['codes']}")
    return drawn | {"decisions": routers.places(drawn, result)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("-n", "--requests", type=int, default=5000)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "routers.jsonl", help="what the routers did")
    args = parser.parse_args()
    python = os.path.abspath(args.python)
    args.keep.parent.mkdir(parents=True, exist_ok=True)
    with args.keep.open("w", encoding="utf-8") as out:
        for drawn in cases_of(args.seed, args.requests, args.only):
            print(json.dumps(play(drawn, python)), file=out, flush=True)
            if sys.stderr.isatty():
                print(f"\r\033[K{drawn['id']}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    go = ["go", "test", "./gocore/router/policies", "-count=1", "-v", "-run", "TestFreshDecisions", "-fresh"]
    raise SystemExit(subprocess.run([*go, str(args.keep.resolve())], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
