"""Routers in Python, of replays and of servers: how they are found, and how questions for them are answered."""

from __future__ import annotations

import bisect
import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol

from dynamo._core import values
from dynamo._shell import members, plugins, tracebacks
from dynamo._shell.plugins import Array
from dynamo._shell.tables import table

GROUP = "dynosim.routers"
"""The group of entry points by which packages offer routers."""
_KIND = plugins.Kind("router", GROUP, "a router", "MODULE:CLASS, FILE.py:CLASS", "choose", ", or a routing mode")
_FAILED = ": the router failed"
_WANT = "want an object with the method choose(request, workers)"
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_METHODS = ("choose", "completed", "tick", "order")
_VALUES = ("tick_ms", "in_order", "metrics_interval_ms", "router_replicas")


class _Reject:
    def __repr__(self) -> str:
        return "REJECT"


REJECT = _Reject()
"""What ``choose`` returns for a request that is to be rejected."""


class Request:
    """A request that a router decides about."""

    __slots__ = (
        "_cached",
        "arrival_ms",
        "deadline_ms",
        "id",
        "priority",
        "prompt_blocks",
        "prompt_tokens",
        "session",
        "stage",
        "strict_priority",
        "tenant",
    )

    def __init__(self, stage: str, now_ms: float, block_size: int, ids: Sequence[int], new: Mapping[str, Any]) -> None:
        self.id: int = new["id"]
        """Its number in the workload, from 0; with faults, a number for each attempt."""
        self.stage = stage
        """The pool that is chosen from: ``""``, or ``"prefill"`` or ``"decode"`` if there are two."""
        self.arrival_ms = now_ms
        """When it came to the router."""
        self.prompt_tokens: int = new["prompt_tokens"]
        self.prompt_blocks = self.prompt_tokens // block_size
        """Full blocks of the prompt."""
        self.session: str = new.get("session", "")
        self.tenant: str = new.get("tenant", "")
        self.priority: int = new.get("priority", 0)
        self.strict_priority: int = new.get("strict_priority", 0)
        self.deadline_ms: float = new.get("deadline_ms", math.inf)
        """The simulated time by which the first token should be there."""
        sparse = new.get("cached", ())
        self._cached = {ids[place]: blocks for place, blocks in zip(sparse[::2], sparse[1::2], strict=True)}

    def __repr__(self) -> str:
        return f"Request(id={self.id}, prompt_tokens={self.prompt_tokens})"


class Workers:
    """What a router knows of the workers at a decision. An index is the place of a worker in all arrays."""

    def __init__(self, stage: str, workers: int, block_size: int, blocks: int) -> None:
        self.stage, self.block_size, self.blocks = stage, block_size, blocks
        self.ids: Sequence[int] = tuple(range(workers))
        """Their numbers, which reports have, too. They are the indices unless workers come and go."""
        self.now_ms = 0.0
        self._lists: Mapping[str, list[int]] = {}
        self._arrays: dict[str, Array] = {}
        self._request: Request | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def queue(self) -> Array:
        """Requests in flight: sent to the worker and not ended."""
        return self._of("requests")

    @property
    def tokens(self) -> Array:
        """Tokens of their prompts that are not cached and not computed yet."""
        return self._of("prefill_tokens")

    @property
    def active_blocks(self) -> Array:
        """Distinct full blocks of their prompts."""
        return self._of("active_blocks")

    @property
    def kv(self) -> Array:
        """These as a fraction of the blocks that a worker has."""
        if "kv" not in self._arrays:
            self._arrays["kv"] = plugins.array_of("d", [n / self.blocks for n in self._lists["active_blocks"]])
        return self._arrays["kv"]

    @property
    def cached(self) -> Array:
        """Leading blocks of the prompt of this request that the worker had cached when the request arrived."""
        if "cached" not in self._arrays:
            known = {} if self._request is None else self._request._cached
            self._arrays["cached"] = plugins.array_of(
                "q", [known.get(worker, 0) for worker in self.ids] if known else [0] * len(self)
            )
        return self._arrays["cached"]

    def _of(self, name: str) -> Array:
        if name not in self._arrays:
            self._arrays[name] = plugins.array_of("q", self._lists[name])
        return self._arrays[name]

    def _update(self, question: dict[str, Any]) -> None:
        self.now_ms = question["now_ms"]
        if "ids" in question:
            self.ids = tuple(question["ids"])
        self._lists, self._arrays = question, {}

    def _look(self, request: Request | None) -> None:
        self._request = request
        self._arrays.pop("cached", None)


class Router(Protocol):
    """What ``router`` of ``run_trace_replay`` has to be. Other methods that it may have: docs/routers.md."""

    def choose(self, request: Request, workers: Workers) -> int | None:
        """Returns the index of a worker, or None to keep the request waiting, or REJECT."""


class Hook(plugins.Answers):
    """Answers the questions that a run has for its routers."""

    failed = _FAILED

    def __init__(self, routers: Sequence[object]) -> None:
        super().__init__()
        self._routers = [_checked(router) for router in routers]
        self.warnings = list(dict.fromkeys(text for router in routers for text in doubts(router)))
        self._pools: dict[tuple[str, str, int], _Pool] = {}
        self.exact = False
        """Whether routers know all: they are not several, and see loads at once, whatever they say."""

    @property
    def limited(self) -> bool:
        """Whether a router does not know all: it polls, or has replicas."""
        return any(_interval_ms(router) or _replicas(router) > 1 for router in self._routers)

    def answer(self, question: str) -> str:
        """Returns the answer. What a router raises is kept, and the run ends with it."""
        asked = json.loads(question)
        stage = asked["router"]
        place = (asked.get("of", ""), stage, asked.get("replica", 0))
        try:
            if asked["why"] == "there":
                return ""
            if asked["why"] == "begin":
                return json.dumps(self._begin(asked))
            return self._pools[place].answer(asked)
        except BaseException as error:  # KeyboardInterrupt of the router, too, reaches the caller of the run
            self.failure = error
            pool = self._pools.get(place)
            return f"failed {-1 if pool is None or pool.at is None else pool.at.id}"

    def _begin(self, asked: Mapping[str, Any]) -> dict[str, float]:
        """Gives the router of a pool, and each copy of it, workers to know of; returns what it wishes."""
        router, of, stage = self._router(asked), asked.get("of", ""), asked["router"]
        copies = _copies(router, 1 if self.exact else _replicas(router))
        for number, one in enumerate(copies):
            workers = Workers(stage, asked["workers"], asked["block_size"], asked["blocks"])
            self._pools[of, stage, number] = _Pool(one, workers)
        interval_ms = 0.0 if self.exact else _interval_ms(router)
        return {
            "tick_ms": _tick_ms(router),
            "metrics_interval_ms": interval_ms,
            "router_replicas": len(copies),
        }

    def _router(self, asked: Mapping[str, Any]) -> object:
        """Returns the router of a pool that begins."""
        return self._routers[-1 if asked["router"] == "decode" else 0]


class Served(Hook):
    """Answers the questions of a server, whose models and pools have routers of their own."""

    def __init__(self) -> None:
        super().__init__([])

    def _router(self, asked: Mapping[str, Any]) -> object:
        text, settings = asked["make"]
        return made(text, json.loads(settings))


def made(text: str, settings: Mapping[str, Any]) -> object:
    """Returns a router that a text names. Raises ValueError or FileNotFoundError."""
    return _made(text, plugins.find(_KIND, text), settings)


class _Pool:
    """A router, the workers that it chooses from and the requests that it keeps."""

    def __init__(self, router: Any, workers: Workers) -> None:
        self._workers = workers
        self._choose: Callable[[Request, Workers], object] = router.choose
        self._completed: Callable[[Request, int, float], object] | None = getattr(router, "completed", None)
        self._tick: Callable[[float, Workers], object] | None = getattr(router, "tick", None)
        self._order: Callable[[Request], Any] | None = getattr(router, "order", None)
        self._in_order = bool(getattr(router, "in_order", False))
        self._kept: list[Request] = []
        self._place = 0
        self._sent: dict[int, Request] = {}
        self.at: Request | None = None
        """The request that the router has been called for."""

    def answer(self, asked: dict[str, Any]) -> str:
        workers, why = self._workers, asked["why"]
        workers._update(asked)
        self._hear(asked)
        if why == "ended":
            return ""
        if why == "arrived":
            request = Request(workers.stage, workers.now_ms, workers.block_size, workers.ids, asked["new"])
            place = self._keep(request)
            if not self._in_order:
                return self._decide(place, alone=True)
            return self._decide(0) if place == 0 else ""
        if why == "ticked" and self._tick is not None:
            workers._look(None)
            self._tick(workers.now_ms, workers)
        return self._decide(self._place if why == "more" else 0)

    def _hear(self, asked: dict[str, Any]) -> None:
        """Tells the router of what has left, and forgets what was withdrawn."""
        self.at = None
        left = asked.get("left", ())
        if self._completed is not None:
            self._workers._look(None)
            for i in range(0, len(left), 3):
                self.at = self._sent.pop(left[i])
                self._completed(self.at, left[i + 1], left[i + 2])
            self.at = None
        if gone := asked.get("withdrawn"):
            self._kept = [request for request in self._kept if request.id not in gone]

    def _keep(self, request: Request) -> int:
        self.at = request
        if self._order is None:
            self._kept.append(request)
            return len(self._kept) - 1
        key = self._key(request)
        try:
            place = bisect.bisect_right(self._kept, key, key=self._key)
        except TypeError as error:
            if tracebacks.place_of(error):
                raise
            raise plugins.WrongAnswer(
                f"order returned {values.show(key)} beside keys of other requests: {error}"
            ) from error
        self._kept.insert(place, request)
        return place

    def _key(self, request: Request) -> Any:
        """Returns the key of the router's order. Raises WrongAnswer if it has no place among others."""
        assert self._order is not None
        key = self._order(request)
        try:
            ordered = not key < key and not any(part != part for part in (key if isinstance(key, tuple) else (key,)))
        except (TypeError, ValueError) as error:
            if tracebacks.place_of(error):
                raise
            raise _no_order(key) from error
        if not ordered:
            raise _no_order(key)
        return key

    def _decide(self, place: int, *, alone: bool = False) -> str:
        """Asks about the requests from a place on, up to the first that is not kept."""
        kept, workers = self._kept, self._workers
        while place < len(kept):
            request = self.at = kept[place]
            workers._look(request)
            chosen = self._choose(request, workers)
            if chosen is not None:
                index = _index(chosen, workers)
                del kept[place]
                if self._completed is not None and index >= 0:
                    self._sent[request.id] = request
                self._place = place
                return f"{request.id} {index} {int(place < len(kept) and not alone)}"
            if self._in_order or alone:
                break
            place += 1
        return ""


def _no_order(key: object) -> plugins.WrongAnswer:
    return plugins.WrongAnswer(f"order returned {values.show(key)}, want a key that has an order, such as a number")


def _index(chosen: object, workers: Workers) -> int:
    if chosen is REJECT:
        if workers.stage == "decode":
            raise plugins.WrongAnswer(
                "choose returned REJECT for a decode worker, want it when the prefill worker is chosen"
            )
        return -1
    if (index := plugins.index_of(chosen, len(workers))) is not None:
        return index
    raise plugins.WrongAnswer(
        f"choose returned {values.show(chosen)}, want an index from 0 to {len(workers) - 1}, None to keep the request"
        " waiting, or REJECT"
    )


def _tick_ms(router: object) -> float:
    if not callable(getattr(router, "tick", None)):
        return 0.0
    return _milliseconds(router, "tick_ms") or 1000.0


def _interval_ms(router: object) -> float:
    """Returns the time between two looks at the loads of workers, 0 for a router that sees its own requests at once."""
    return _milliseconds(router, "metrics_interval_ms") or 0.0


def _replicas(router: object) -> int:
    """Returns how many routers there are, which get requests in turn."""
    given = getattr(router, "router_replicas", None)
    if given is None:
        return 1
    count = values.integer("router: router_replicas", given)
    if not 1 <= count <= 4096:
        raise ValueError(f"router: router_replicas: got {count}, want an integer from 1 to 4096")
    return count


def _copies(router: object, count: int) -> list[object]:
    """Returns the router and copies of it, as it is before its first request."""
    try:
        return [router, *(copy.deepcopy(router) for _ in range(count - 1))]
    except Exception as error:
        raise plugins.CannotBegin(f"router_replicas: the router cannot be copied: {error}") from error


def _milliseconds(router: object, name: str) -> float | None:
    given = getattr(router, name, None)
    if given is None:
        return None
    every = values.number(f"router: {name}", given)
    if not 0 < every <= 1e15:
        raise ValueError(f"router: {name}: got {values.show(given)}, want a number above 0 and up to 1e15")
    return float(every)


def _checked(router: object, text: str = "") -> object:
    """Returns the same object, whether a text names it or not. Raises TypeError unless it can be a router."""
    if isinstance(router, type):
        raise TypeError(f"router: got the class {router.__name__}, want an object: {router.__name__}(...)")
    if not callable(getattr(router, "choose", None)):
        if isinstance(router, _FUNCTIONS):
            raise TypeError(f"router: got the function {router.__name__}, {_WANT}")
        named = f"{text} has no choose" if text else f"got {values.show(router)}"
        raise TypeError(f"router: {named}, {_WANT}{members.in_place_of(router, 'choose')}")
    for method in ("completed", "tick", "order"):
        if getattr(router, method, None) is not None and not callable(getattr(router, method)):
            raise TypeError(f"router: {method}: got {values.show(getattr(router, method))}, want a method")
    _tick_ms(router)
    _interval_ms(router)
    _replicas(router)
    return router


def doubts(router: object) -> list[str]:
    """Returns warnings of members of a router that are misspelt or have no effect."""
    found = members.misspelt("router", router, _METHODS, _VALUES)
    if getattr(router, "tick_ms", None) is not None and not hasattr(router, "tick"):
        found.append("router: tick_ms has no effect without a method tick(now_ms, workers)")
    return found


def refuse_as_mode(mode: object) -> None:
    """Raises ValueError if a routing mode is the name of a router in Python."""
    if isinstance(mode, str) and ":" in mode:
        raise ValueError(
            f"router_mode: got {values.show(mode)}, want a routing mode; a router in Python is --router {mode},"
            f" router={values.show(mode)} in Python"
        )


def hook_of(given: object) -> Hook | None:
    """Returns the hook of the parameter ``router``; None for a text. Raises TypeError or ValueError."""
    if isinstance(given, str):
        return None
    routers = given if isinstance(given, list | tuple) else [given]
    if len(routers) not in (1, 2):
        raise ValueError(
            f"router: got {len(routers)} objects, want one, or two for pools of prefill and decode workers"
        )
    return Hook(routers)


def described(given: object) -> str:
    """Returns what reports call the parameter ``router``."""
    routers = given if isinstance(given, list | tuple) else [given]
    return " and ".join(plugins.described("router", router) for router in routers)


def hook_for(config: Mapping[str, Any]) -> Hook | None:
    """Returns the hook of a run whose router is named by a text, None if it has no router in Python."""
    text = config.get("router")
    modes = next(row["choices"] for row in table("run_options")["fields"] if row["name"] == "router_mode")
    if not text or text in modes:
        return None
    settings = json.loads(config.get("router_config") or "{}")
    if not isinstance(settings, dict):
        raise ValueError(f"router_config: got {values.show(settings)}, want an object")
    twice = "prefill_engine_args" in config or "decode_engine_args" in config or "num_prefill_workers" in config
    make = plugins.find(_KIND, text)
    return Hook([_made(text, make, settings) for _ in range(2 if twice or "num_decode_workers" in config else 1)])


def _made(text: str, make: Any, settings: Mapping[str, Any]) -> object:
    if callable(getattr(make, "choose", None)) and not isinstance(make, type):
        if settings:
            raise ValueError(f"router_config: router {text} is an object, want it left out")
        return _valid(make, text)
    if not callable(make):
        return _valid(make, text)
    try:
        made = make(**settings)
    except Exception as error:
        raise ValueError(_not_made(text, make, settings, error)) from error
    return _valid(made, text)


def _not_made(text: str, make: Any, settings: Mapping[str, Any], error: Exception) -> str:
    """Returns the message about a router that cannot be made."""
    place = tracebacks.place_of(error)
    said = tracebacks.placed(error) if place else str(error)
    given = ", ".join(f"{name}={values.show(value)}" for name, value in settings.items())
    message = f"router: {text} cannot be made with ({given}): {said}"
    if place or not isinstance(error, TypeError):
        return message
    if isinstance(make, _FUNCTIONS) and not settings:
        return f"{message}; want a class with the method choose(request, workers), not this function"
    if of_class := [name for name in settings if name in _VALUES]:
        one = of_class[0]
        return (
            f"{message}; {one} of a router in Python is an attribute: {one} = {values.show(settings[one])} in its class"
        )
    return message


def _valid(made: object, text: str) -> object:
    try:
        return _checked(made, text)
    except TypeError as error:
        raise ValueError(str(error)) from None


def installed() -> Iterator[EntryPoint]:
    """Returns the routers that packages of this environment offer."""
    return plugins.installed(_KIND)
