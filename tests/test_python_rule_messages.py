"""What runs say about mistakes in routers, scheduler policies and timing models in Python: where, and what to do."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused, row, write_trace

from dynamo._shell import members, plugins, tracebacks
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

RULES = """\
class First:
    def choose(self, request, workers):
        return 0

class Nameless(First):
    def choose(self, request, workers):
        return request.nix

class Helped(First):
    def order(self, request):
        return max(slack(k) for k in [1])

def slack(k):
    return [][k]

class Late(First):
    def completed(self, request, worker, now_ms):
        raise KeyError("late")

class Nowhere:
    def choose(self, request, workers):
        return 7 if request.id == 2 else 0

class Unordered(First):
    def order(self, request):
        return float("nan")

class PairUnordered(First):
    def order(self, request):
        return (1, float("nan"))

class Keyless(First):
    def order(self, request):
        return None

class Mixed:
    def order(self, request):
        return request.id or "none"

    def choose(self, request, workers):
        return None

class Typos(First):
    inorder = True
    tick_ms = 5

    def on_complete(self, request, worker, now_ms):
        pass

class Fine(First):
    order_book = None

    def __init__(self):
        self.ticks, self.chosen, self._completd = [], {}, 0

    def tick(self, now_ms, workers):
        self.ticks.append(now_ms)

    def completed(self, request, worker, now_ms):
        pass

    def on_complete(self):
        pass

class NoChoose:
    pass

class Chose:
    def chose(self, request, workers):
        return 0

class Unmade(First):
    def __init__(self):
        self.table = {}["no such row"]

def function(request, workers):
    return 0

class Wrong:
    def next(self, waiting, engine):
        return waiting[99]

class Victims:
    def next(self, waiting, engine):
        return 0

    def victims(self, running, engine):
        return 0

def slow(batch):
    return batch.tokens.nix
"""


@pytest.fixture
def trace(folder: Path) -> str:
    (folder / "rules.py").write_text(RULES)
    return write_trace(folder / "t.jsonl", [row(i, 100, 3, [i]) for i in range(6)])


def run(cli: Cli, trace: str, rule: str, *more: str, option: str = "--router") -> Any:
    workers = ["--num-workers", "2"] if option == "--router" else []
    return cli(trace, *workers, option, f"rules.py:{rule}", *more)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("Nameless", "line 1: rules.py line 7, choose: AttributeError: 'Request' object has no attribute 'nix'"),
        ("Helped", "line 1: rules.py line 14, slack called by order: IndexError: list index out of range"),
        ("Late", "rules.py line 18, completed: KeyError: 'late'"),
        (
            "Nowhere",
            "line 3: choose returned 7, want an index from 0 to 1, None to keep the request waiting, or REJECT",
        ),
        ("Unordered", "line 1: order returned nan, want a key that has an order, such as a number"),
        ("PairUnordered", "line 1: order returned [1, NaN], want a key that has an order, such as a number"),
        ("Keyless", "line 1: order returned null, want a key that has an order, such as a number"),
        ("Mixed", "line 2: order returned 1 beside keys of other requests: '<' not supported between"),
    ],
)
def test_what_fails_in_a_run_names_the_place_and_exits_with_1(cli: Cli, trace: str, rule: str, says: str) -> None:
    done = run(cli, trace, rule)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith("error: router: at ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("option", "rule", "says"),
    [
        ("--scheduler-policy", "Wrong", "rules.py line 81, next: IndexError: list index out of range"),
        ("--timing-model", "slow", "rules.py line 91, slow: AttributeError: "),
    ],
)
def test_other_rules_name_the_place_too(cli: Cli, trace: str, option: str, rule: str, says: str) -> None:
    done = run(cli, trace, rule, option=option)
    assert done.returncode == 1, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_wrong_index_is_of_both_types() -> None:
    class Nowhere:
        def choose(self, request: Any, workers: Any) -> int:
            return 9

    with pytest.raises(plugins.BrokenRule) as caught:
        run_synthetic_trace_replay(10, 2, 4, num_workers=2, router=Nowhere())
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, ValueError)

    class Locked(Nowhere):
        router_replicas = 2

        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(ValueError, match="the router cannot be copied") as refusal:
        run_synthetic_trace_replay(10, 2, 4, num_workers=2, router=Locked())
    assert not isinstance(refusal.value, RuntimeError)


@pytest.mark.parametrize(
    ("rule", "more", "says"),
    [
        ("NoChoose", [], "router: rules.py:NoChoose has no choose, want an object with the method choose(request, wor"),
        ("Chose", [], "method choose(request, workers); did you mean choose in place of chose?"),
        ("Unmade", [], "rules.py:Unmade cannot be made with (): rules.py line 74, __init__: KeyError: 'no such row'"),
        ("function", [], "; want a class with the method choose(request, workers), not this function"),
        (
            "First",
            ["--router-config", '{"metrics_interval_ms": 50}'],
            "; metrics_interval_ms of a router in Python is an attribute: metrics_interval_ms = 50 in its class",
        ),
    ],
)
def test_what_is_refused_before_a_run(cli: Cli, trace: str, rule: str, more: list[str], says: str) -> None:
    assert says in refused(run(cli, trace, rule, *more))


def test_other_rules_are_named_as_they_were_written(cli: Cli, trace: str) -> None:
    done = run(cli, trace, "NoChoose", option="--scheduler-policy")
    assert "scheduler_policy: rules.py:NoChoose has no next and no victim, want an object with" in refused(done)
    done = run(cli, trace, "NoChoose", option="--timing-model")
    assert "timing_model: rules.py:NoChoose cannot be called, want a function of a batch" in refused(done)
    done = run(cli, trace, "Unmade", option="--scheduler-policy")
    assert "rules.py:Unmade cannot be made: rules.py line 74, __init__: KeyError: 'no such row'" in refused(done)


def test_a_router_as_a_mode(cli: Cli, trace: str) -> None:
    done = cli(trace, "--num-workers", "2", "--router-mode", "rules.py:First")
    assert 'router_mode: got "rules.py:First", want a routing mode; a router in Python is --router rules.py:First' in (
        refused(done)
    )


def test_a_function_as_an_object() -> None:
    def choose(request: Any, workers: Any) -> int:
        return 0

    with pytest.raises(TypeError, match=r"router: got the function choose, want an object with the method choose"):
        run_synthetic_trace_replay(10, 2, 4, num_workers=2, router=choose)  # type: ignore[arg-type]


def test_misspelt_members_are_warned_of_once(cli: Cli, trace: str) -> None:
    for explained in ([], ["--explain"]):
        done = run(cli, trace, "Typos", *explained)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == [
            "warning: router: inorder has no effect; did you mean in_order?",
            "warning: router: on_complete is not called by runs; did you mean completed?",
            "warning: router: tick_ms has no effect without a method tick(now_ms, workers)",
        ]
    done = run(cli, trace, "Victims", option="--scheduler-policy")
    assert done.stderr == "warning: scheduler_policy: victims is not called by runs; did you mean victim?\n"
    assert run(cli, trace, "Fine").stderr == ""


def test_misspelt_members_of_objects(trace: str) -> None:
    def model(_: Any) -> float:
        return 1.0

    model.pures = True  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match=r"^timing_model: pures has no effect; did you mean pure\?$"):
        run_trace_replay(trace, timing_model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_trace_replay(trace, timing_model=lambda _: 1.0)


def test_properties_are_not_called() -> None:
    class Careful:
        @property
        def inorder(self) -> bool:
            raise AssertionError("called")

    found = members.misspelt("router", Careful(), ("choose",), ("in_order",))
    assert found == ["router: inorder has no effect; did you mean in_order?"]


def test_places_of_installed_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the user comes before that of packages; a package alone is named."""
    there = folder / "site-packages"
    there.mkdir()
    (there / "shipped_rule.py").write_text("import json\n\n\ndef ask():\n    return json.loads('{')\n")
    monkeypatch.syspath_prepend(str(there))
    import shipped_rule  # type: ignore[import-not-found]

    own: dict[str, Any] = {"ask": shipped_rule.ask}
    exec(compile("def go():\n    return ask()\n", "own.py", "exec"), own)
    assert _without_tests(_raised(own["go"])) == "own.py line 2, go"
    assert _without_tests(_raised(shipped_rule.ask)) == "shipped_rule.py line 5, ask"
    del sys.modules["shipped_rule"]


def _raised(call: Any) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it has raised nothing")


def _without_tests(error: Exception) -> str:
    """The place of an error as of a run, which has no frames of this file."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next
    return tracebacks.place_of(error.with_traceback(at))
