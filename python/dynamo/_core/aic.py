"""Answers what a run asks the AIC SDK, the package ``aiconfigurator``, which knows how fast engines are on real GPUs.

Questions and answers are JSON texts, described in gocore/aic/doc.go. The SDK is optional, takes seconds to load, and is
therefore imported by the first question whose answer ``aic_cache`` does not know. Its sessions live as long as the
process and are shared by its runs.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dynamo._core import aic_cache, aic_sdk, spelling

_INSTALL = "pip install 'dynosim[aic]'"
# Set to any value, this makes predictions add up the operations of a model in Python, without the compiled engine.
_NO_COMPILED_ENGINE = "DYNAMO_AIC_DISABLE_COMPILED_ENGINE"
# One decode pass: the first output token is the prompt's, the second one is predicted.
_OUTPUT_TOKENS = 2
# A prompt of this length is tried when a session opens, so that missing data shows before the run.
_TRIAL_TOKENS = 128
# Of models with sliding windows a token of a long prompt has less KV than that of a short one.
_PROMPT_TOKENS = 4096
_PREFILL, _DECODE, _PREFILL_EXPERTS, _DECODE_EXPERTS = range(4)
# Operations of expert layers: dispatch of tokens to the ranks of their experts, the experts, and the way back.
_EXPERTS = "moe"
# The answer to the question that opens a session, among those that are kept.
_OPENED = "open"
_REFUSED = "refused"
# How the refusal of a model begins that has no room on its GPUs.
_TOO_LARGE = "aic_tp_size: "
# Tensor parallelism is doubled this many times at most for a model that is too large.
_MOST_DOUBLED = 6

# Models with the shape of another one, without owner, in lower case: durations are those of the other.
_SAME_SHAPE = {"llama-3.3-70b": "llama-3.1-70b", "llama-3-70b": "llama-3.1-70b", "llama-3-8b": "llama-3.1-8b"}
# Parts of names that tell tunings of a model apart, which compute alike.
_TUNINGS = re.compile(r"-(instruct|chat|it|hf|base|thinking|\d{4})(?=-|$)")

# For each data type of a question: the SDK's list of names, and its keyword.
_DATA_TYPES = {
    "gemm_dtype": ("GEMMQuantMode", "gemm_quant_mode"),
    "moe_dtype": ("MoEQuantMode", "moe_quant_mode"),
    "fmha_dtype": ("FMHAQuantMode", "fmha_quant_mode"),
    "kv_cache_dtype": ("KVCacheQuantMode", "kvcache_quant_mode"),
    "comm_dtype": ("CommQuantMode", "comm_quant_mode"),
}
_SIZES = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")


class Refusal(Exception):
    """The reason why a question has no answer, in one line for the user."""


class NoPredictions(Refusal):
    """A model of which the SDK has not measured enough: it says so again however often it is asked."""


def answer(question: str) -> str:
    """Returns the answer to one question. It never raises: an error is an answer, too."""
    try:
        ((verb, asked),) = json.loads(question).items()
        with _sdk_lock:
            if question in _remembered:
                return _remembered[question]
            text = json.dumps(_VERBS[verb](asked))
            if verb != "predict":
                _remembered[question] = text
            return text
    except Refusal as refusal:
        text = json.dumps({"error": str(refusal)})
        if isinstance(refusal, NoPredictions):
            _remembered[question] = text
        return text
    except (Exception, SystemExit) as error:
        return json.dumps({"error": f"the AIC SDK failed: {_reason(error)}"})


class Predictor(Protocol):
    """How long one pass takes, in milliseconds."""

    def prefill(self, batch: int, tokens: int, prefix: int) -> float:
        """Returns the time in which ``batch`` requests compute ``tokens`` prompt tokens each, after ``prefix`` that are
        computed.
        """

    def decode(self, batch: int, context: int) -> float:
        """Returns the time in which ``batch`` requests, whose sequences have ``context`` tokens, get one more token
        each.
        """

    def experts(self, kind: int, tokens: int) -> float:
        """Returns the share of expert layers in a prefill or decode part with ``tokens`` of each data-parallel rank.

        Raises Refusal if they cannot be told apart.
        """


class CompiledEngine:
    """The SDK's compiled predictions."""

    def __init__(self, handle: Any, walk: OperationWalk) -> None:
        self._handle = handle
        self._walk = walk
        self._experts = {kind: _expert_operations(walk.operations(kind)) for kind in (_PREFILL, _DECODE)}

    def prefill(self, batch: int, tokens: int, prefix: int) -> float:
        return float(self._handle.predict_prefill_latency(batch, tokens + prefix, prefix))

    def decode(self, batch: int, context: int) -> float:
        return float(self._handle.predict_decode_latency(batch, context, _OUTPUT_TOKENS))

    def experts(self, kind: int, tokens: int) -> float:
        indices = _told_apart(self._experts[kind])
        if not hasattr(self._handle, "evaluate_context_ops"):  # releases before 0.12, whose operations can be asked
            return self._walk.experts(kind, tokens)
        if kind == _PREFILL:
            values = self._handle.evaluate_context_ops(indices, batch_size=1, s=tokens, x=tokens)
        else:
            verified = tokens * self._walk.tokens_per_step
            values = self._handle.evaluate_generation_ops(indices, batch_size=verified, s=1, x=verified)
        return sum(float(value[1]) for value in values)


def _expert_operations(operations: Iterable[Any]) -> list[int]:
    """Returns the indices of the operations of expert layers."""
    return [index for index, operation in enumerate(operations) if _EXPERTS in operation._name]


def _told_apart(indices: list[int]) -> list[int]:
    if not indices:
        raise Refusal("the model has no expert layers")
    return indices


class OperationWalk:
    """The same, added up from the operations of a model. Slower, for releases without the compiled engine."""

    def __init__(self, model: Any, database: Any, name: str, drafts: int) -> None:
        self._model = model
        self._database = database
        self._name = name
        self.tokens_per_step = drafts + 1

    def operations(self, kind: int) -> Any:
        """Returns the operations of the model in a prefill or a decode."""
        return self._model.context_ops if kind == _PREFILL else self._model.generation_ops

    def prefill(self, batch: int, tokens: int, prefix: int) -> float:
        return self._total(
            self.operations(_PREFILL),
            lambda op: batch if "logits_gemm" in op._name else batch * tokens,
            batch_size=batch,
            s=tokens,
            prefix=prefix,
            seq_imbalance_correction_scale=1.0,
        )

    def decode(self, batch: int, context: int) -> float:
        verified = batch * self.tokens_per_step
        return self._total(
            self.operations(_DECODE),
            lambda op: verified,
            batch_size=verified,
            s=context + 1,
            gen_seq_imbalance_correction_scale=1.0,
        )

    def experts(self, kind: int, tokens: int) -> float:
        if kind == _PREFILL:
            shape = {"batch_size": 1, "s": tokens, "prefix": 0, "seq_imbalance_correction_scale": 1.0}
        else:
            tokens *= self.tokens_per_step
            shape = {"batch_size": tokens, "s": 1, "gen_seq_imbalance_correction_scale": 1.0}
        operations = self.operations(kind)
        chosen = [operations[index] for index in _told_apart(_expert_operations(operations))]
        return self._total(chosen, lambda op: tokens, **shape)

    def _total(self, operations: Iterable[Any], width: Callable[[Any], int], **shape: Any) -> float:
        return sum(
            float(op.query(self._database, x=width(op), beam_width=1, model_name=self._name, **shape))
            for op in operations
        )


class Session:
    """A model on GPUs, with the version that is used. The SDK loads it for what is not known yet."""

    def __init__(self, number: int, asked: Mapping[str, Any], predictor: Predictor | None) -> None:
        self.number = number
        self.asked = asked
        self._predictor = predictor
        # The KV pool of one attention data-parallel rank as it was estimated last, in blocks.
        self.pool_blocks: int | None = None
        self.kept: aic_cache.Kept | None = None
        self.described: Mapping[str, Any] = {}
        """What is said of it when it is opened, but for its number."""

    @property
    def predictor(self) -> Predictor:
        """Its predictions, which need the lock (``asking``). Loads the SDK at first use, and raises Refusal if that
        fails.
        """
        with _reading_once(self.asked):
            if self._predictor is None:
                _sdk()
                with aic_sdk.quickly():
                    database, _ = _database(self.asked, version_given=True)
                self._predictor = _predictor(self.asked, database)
            return self._predictor


def _tells_experts_apart(predictor: Predictor) -> bool:
    try:
        for kind in (_PREFILL, _DECODE):
            _finite(predictor.experts(kind, _TRIAL_TOKENS))
    except Exception:  # a dense model, or data that are missing
        return False
    return True


# The SDK makes no promise about threads. Only tables of compiled predictions, of which each session has its own, are
# read without this lock: that takes seconds, most of the time of a first run.
_sdk_lock = threading.Lock()
# Sessions whose tables are read now, and what is set at their end.
_reading: list[tuple[Mapping[str, Any], threading.Event]] = []
_sessions: list[Session] = []
# Answers about whole sessions, by question: the next run asks the same. Go remembers predictions.
_remembered: dict[str, str] = {}


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Holds the lock of the SDK, which the predictions of a session need."""
    with _sdk_lock:
        yield


@contextlib.contextmanager
def _without_lock() -> Iterator[None]:
    """Releases the lock of the SDK meanwhile, and acquires it again at the end, also if the run is interrupted."""
    _sdk_lock.release()
    try:
        yield
    finally:
        interrupted = False
        while True:
            try:
                _sdk_lock.acquire()
                break
            except KeyboardInterrupt:  # without the lock, the end of a question would release that of another one
                interrupted = True
        if interrupted:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _reading_once(asked: Mapping[str, Any]) -> Iterator[None]:
    """Waits while another thread reads the tables of a session with the same values, so that they are read once."""
    while other := next((ended for values, ended in _reading if values == asked), None):
        with _without_lock():
            other.wait()
    now = (asked, threading.Event())
    _reading.append(now)
    try:
        yield
    finally:
        _reading.remove(now)
        now[1].set()


def opened(asked: Mapping[str, Any]) -> Session | None:
    """Returns the session of this process that was opened last with all these values, None without one."""
    for session in reversed(_sessions):
        if all(session.asked.get(name, value) == value for name, value in asked.items()):
            return session
    return None


def _open(asked: dict[str, Any]) -> dict[str, Any]:
    kept = aic_cache.of_session(asked)
    version_given = asked.pop("version_given")
    known = kept.answer(_OPENED) if kept is not None else None
    if known is not None and _REFUSED in known:
        raise NoPredictions(known[_REFUSED])
    if known is None:
        try:
            session = _load(asked, version_given)
        except NoPredictions as refusal:
            if kept is not None:
                kept.keep_answer(_OPENED, {_REFUSED: str(refusal)})
                kept.write(all_of_it=True)
            raise
        if kept is not None and session.kept is None:
            kept.keep_answer(_OPENED, {"model": session.asked["model"], **session.described})
    else:
        described = {name: value for name, value in known.items() if name != "model"}
        session = _session({**asked, "version": known["version"], "model": known["model"]}, None, described)
    session.kept = session.kept or kept
    alias = {"alias": session.asked["model"]} if session.asked["model"] != asked["model"] else {}
    return {"session": session.number, **session.described, **alias}


def _load(asked: Mapping[str, Any], version_given: bool) -> Session:
    """Returns the session that a question asks for, with the SDK."""
    _sdk()
    with aic_sdk.quickly():
        database, version = _database(asked, version_given)
    resolved = {**asked, "version": version, "model": _name_in_sdk(asked["model"])}
    with _reading_once(resolved):
        known = next((session for session in _sessions if session.asked == resolved), None)
        if known is not None:
            return known
        with aic_sdk.importing_pandas():
            predictor = _predictor(resolved, database)
            experts = _tells_experts_apart(predictor)
    weights = _weights(resolved, experts)
    described = {"version": version, "release": aic_sdk.release(), "experts": experts, "weights": weights}
    return _session(resolved, predictor, described)


def _name_in_sdk(model: str) -> str:
    """Returns the name of a model as ``known_as`` has it. The SDK's list takes longer than a look at the models'
    files.
    """
    return model if _known_config(model) else known_as(model, known_models())


def _weights(asked: Mapping[str, Any], experts: bool) -> str:
    """Returns the data type of most weights of a model as it is predicted, by the SDK's name; "" if it does not tell.

    Without a data type in the question, the checkpoint decides it.
    """
    mode = getattr(getattr(_model(asked), "config", None), "moe_quant_mode" if experts else "gemm_quant_mode", None)
    return str(getattr(mode, "name", ""))


def _session(asked: Mapping[str, Any], predictor: Predictor | None, described: Mapping[str, Any]) -> Session:
    session = next((known for known in _sessions if known.asked == asked), None)
    if session is None:
        session = Session(len(_sessions), asked, predictor)
        session.described = described
        _sessions.append(session)
    return session


def _once(verb: str, asked: Mapping[str, Any], ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns the answer to a question about a whole session: the kept one, or that of the SDK.

    That a model is too large for its GPUs is kept, too.
    """
    kept = _sessions[asked["session"]].kept
    if kept is None:
        return ask()
    name = json.dumps([verb, {key: value for key, value in asked.items() if key != "session"}], sort_keys=True)
    found = kept.answer(name)
    if found is None:
        try:
            found = ask()
        except Refusal as refusal:
            if str(refusal).startswith(_TOO_LARGE):
                kept.keep_answer(name, {_TOO_LARGE: str(refusal)})
            raise
        if None not in found.values():
            kept.keep_answer(name, found)
    if _TOO_LARGE in found:
        raise Refusal(found[_TOO_LARGE])
    return dict(found)


def _capacity(asked: dict[str, Any]) -> dict[str, Any]:
    found = _once("capacity", asked, lambda: _estimate(asked))
    _sessions[asked["session"]].pool_blocks = found["blocks"]
    return found


def _estimate(asked: Mapping[str, Any]) -> dict[str, Any]:
    _sdk()
    session = _sessions[asked["session"]].asked
    try:
        estimate = aic_sdk.module("memory").estimate_num_gpu_blocks
    except (ImportError, AttributeError):
        raise Refusal(
            f"num_gpu_blocks: got nothing, want it given: aiconfigurator {aic_sdk.release()} cannot estimate it"
        ) from None
    types = {keyword: session[name] for name, (_, keyword) in _DATA_TYPES.items() if name in session}

    def blocks(**sizes: Any) -> int:
        return int(
            estimate(
                session["model"],
                session["system"],
                session["backend"],
                backend_version=session["version"],
                scheduler_block_size=asked["block_size"],
                max_num_tokens=asked["max_num_tokens"],
                max_batch_size=1,
                memory_fraction_kind=asked["memory_fraction_kind"],
                memory_fraction_value=asked["memory_fraction_value"],
                **{**_given_sizes(session), **sizes},
                **types,
            )
        )

    try:
        return {"blocks": blocks()}
    except Exception as error:
        raise Refusal(_too_large(session, blocks, error)) from error


def _config_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Returns the config.json of a session's model, and its hf_quant_config.json, "" without one."""
    return _once("model_config", asked, lambda: _config_files(_sessions[asked["session"]].asked["model"]))


def _config_files(model: str) -> dict[str, Any]:
    _sdk()
    texts = _config_texts(model)
    if texts is None:
        raise Refusal(
            'kv_pool_estimate: got "engine", want "sdk", or num_gpu_blocks given: '
            f"aiconfigurator {aic_sdk.release()} has no config.json of {model}"
        )
    return {"config": texts[0], "quantization": texts[1]}


def _config_texts(model: str) -> tuple[str, str] | None:
    """The config.json of a model, and its hf_quant_config.json, "" without one; None if there is no config.json."""
    if os.path.isdir(model):
        found = [os.path.join(model, name) for name in ("config.json", "hf_quant_config.json")]
    else:
        found = [f"{_known_config(model)}_{kind}.json" for kind in ("config", "hf_quant_config")]
    if not os.path.isfile(found[0]):
        return None
    config, quantization = (Path(path).read_text(encoding="utf-8") if os.path.isfile(path) else "" for path in found)
    return config, quantization


def wants_fp8_kv(model: str) -> bool:
    """Whether engines keep the KV cache of a checkpoint in FP8 without a flag, because its own files ask for it.

    Package models of the core reads them in the same way. A model without a config.json that is known here does not.
    """
    with _sdk_lock:
        texts = _config_texts(model if os.path.isdir(model) else _name_in_sdk(model))
    config, beside = (json.loads(text or "{}") for text in texts or ("", ""))
    whole = config.get("quantization_config") or {}
    said = [(each.get("quantization") or each).get("kv_cache_quant_algo") for each in (beside, whole)]
    return any(str(name).lower() == "fp8" for name in said)


def _known_config(model: str) -> str:
    """Returns the path, without its ending, at which the SDK keeps the config.json of a model that it knows.

    A part of the SDK has its own package since 0.12.
    """
    for package in (f"{aic_sdk.PACKAGE}_core", aic_sdk.PACKAGE):
        try:
            home = os.path.dirname(importlib.import_module(package).__file__ or "")
        except ImportError:
            continue
        known = os.path.join(home, "model_configs", model.replace("/", "--"))
        if os.path.isfile(f"{known}_config.json"):
            return known
    return ""


def _kv_bytes(asked: dict[str, Any]) -> dict[str, Any]:
    """Returns how many bytes the KV of a token of the whole model has, in a prompt of usual length; None if it is not
    known.

    Parallelism changes nothing: it is asked of the model on one GPU, where no heads are there twice.
    """
    return _once("kv_bytes", asked, lambda: _kv_bytes_of(_sessions[asked["session"]].asked))


def _kv_bytes_of(session: Mapping[str, Any]) -> dict[str, Any]:
    _sdk()
    try:
        model = _model({**session, **{name: 1 for name in _SIZES if name in session}})
        found = _finite(float(model.get_kvcache_bytes_per_sequence(_PROMPT_TOKENS)) / _PROMPT_TOKENS)
    except Exception:  # older releases have no such method, and some models no answer
        return {"bytes": None}
    return {"bytes": found}


def _too_large(session: Mapping[str, Any], blocks: Callable[..., int], error: Exception) -> str:
    """Says why there is no KV pool: the model is too large for its GPUs if more of them would have room for it."""
    tp = session.get("tp_size", 1)
    where = f"{session['model']} on {session['system']}"
    # Experts are spread over as many GPUs, by the way that the session spreads them.
    spread = "moe_ep_size" if session.get("moe_ep_size", 1) > 1 else "moe_tp_size"
    for doubled in range(1, _MOST_DOUBLED + 1):
        more = tp << doubled
        experts = {spread: session[spread] << doubled} if spread in session else {}
        try:
            if blocks(tp_size=more, **experts) > 0:
                what = f"want {more}, the smallest that fits: {where} leaves no memory for the KV cache with fewer"
                return f"aic_tp_size: got {tp}, {what}"
        except Exception:
            continue
    return f"num_gpu_blocks: got nothing, want it given: it cannot be estimated: {_reason(error)}"


def _predict(asked: dict[str, Any]) -> dict[str, Any]:
    session, questions = _sessions[asked["session"]], asked["questions"]
    kept = session.kept
    if kept is None:
        ms, errors = _ask(session.predictor, questions)
        return {"ms": ms, "errors": errors}
    ms = kept.predictions(questions)
    if None in ms and kept.refresh():
        ms = kept.predictions(questions)
    unknown = [index for index, value in enumerate(ms) if value is None]
    errors = {}
    if unknown:
        asked_now = [questions[index] for index in unknown]
        fresh, failed = _ask(session.predictor, asked_now)
        kept.keep_predictions(asked_now, fresh)
        for index, value in zip(unknown, fresh, strict=True):
            ms[index] = value
        errors = {str(unknown[int(at)]): reason for at, reason in failed.items()}
    return {"ms": ms, "errors": errors}


def _ask(predictor: Predictor, questions: Iterable[Sequence[int]]) -> tuple[list[float | None], dict[str, str]]:
    """Returns the SDK's predictions, and by index why there is none."""
    ms: list[float | None] = []
    errors = {}
    for kind, batch, tokens, prefix in questions:
        try:
            ms.append(_finite(_one(predictor, kind, batch, tokens, prefix)))
        except Exception as error:
            errors[str(len(ms))] = _reason(error)
            ms.append(None)
    return ms, errors


def keep(*, all_of_it: bool = False) -> None:
    """Writes what is new of the answers to the disk, at the end of a run; at the end of the process all of it.

    It never waits: an interrupted run ends while the SDK is busy, and what another thread asks is written at its end.
    """
    if not _sdk_lock.acquire(blocking=False):
        return
    try:
        for session in _sessions:
            if session.kept is not None:
                session.kept.write(all_of_it=all_of_it)
    finally:
        _sdk_lock.release()


atexit.register(keep, all_of_it=True)


_VERBS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "open": _open,
    "capacity": _capacity,
    "kv_bytes": _kv_bytes,
    "model_config": _config_of,
    "predict": _predict,
}


def _one(predictor: Predictor, kind: int, batch: int, tokens: int, prefix: int) -> float:
    if kind == _PREFILL:
        return predictor.prefill(batch, tokens, prefix)
    if kind == _DECODE:
        return predictor.decode(batch, tokens)
    if kind == _PREFILL_EXPERTS:
        return predictor.experts(_PREFILL, tokens)
    return predictor.experts(_DECODE, batch)


def _finite(ms: float) -> float:
    if ms - ms != 0:
        raise Refusal(f"the AIC SDK predicts {ms} ms")
    return ms


def _database(asked: Mapping[str, Any], version_given: bool) -> tuple[Any, str]:
    """Returns the measurements for a system and a backend, and of which version they are."""
    version: str = asked["version"]
    database = _measurements(asked, version)
    if database is not None:
        return database, version
    offered = _offered_versions(asked)
    where = f"{asked['backend']} on {asked['system']}"
    if version_given and version not in offered:
        what = f"got {json.dumps(version)}, want one of {', '.join(offered)} for {where}"
        raise Refusal(f"aic_backend_version: {what}")
    for other in () if version_given else sorted(offered, key=_age, reverse=True):
        database = _measurements(asked, other)
        if database is not None:
            return database, other
    raise Refusal(f"aic_backend: the AIC SDK offers {', '.join(offered)} for {where} but cannot load it")


@functools.cache
def _databases() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Returns the versions by system and backend. The SDK reads hundreds of files for the answer, which takes a
    second.
    """
    systems: Mapping[str, Mapping[str, Sequence[str]]] = aic_sdk.module("perf_database").get_supported_databases()
    return systems


def _age(version: str) -> list[tuple[int, str]]:
    """Orders versions: a number counts more than a word, as 1.3.0 comes after 1.3.0rc10."""
    numbers = [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[a-z]+", version)]
    return [*numbers, (0, "")]


def known_models() -> Sequence[str]:
    """Returns the models that the SDK names; none if it has no list."""
    try:
        names: Sequence[str] = sorted(aic_sdk.module("common").get_default_models())
    except (ImportError, AttributeError):
        return ()
    return names


def supported() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Returns the versions that the SDK has measured, by system and engine. Raises Refusal without the SDK."""
    _sdk()
    with aic_sdk.quickly():
        databases = _databases()
    return {
        system: {engine: sorted(versions, key=_age) for engine, versions in sorted(engines.items()) if versions}
        for system, engines in sorted(databases.items())
    }


def known_as(name: str, models: Collection[str]) -> str:
    """Returns the name by which the SDK knows a model: ``Llama-3.1-70B-Instruct`` is ``Meta-Llama-3.1-70B`` there."""
    if name in models or os.path.isdir(name):
        return name
    wanted = _plain_name(name)
    wanted = _SAME_SHAPE.get(wanted, wanted)
    found = [model for model in models if _plain_name(model) == wanted]
    return found[0] if len(found) == 1 else name


def _plain_name(model: str) -> str:
    """Returns a name without its owner and what tells tunings apart."""
    return _TUNINGS.sub("", model.rstrip("/").rpartition("/")[2].lower().removeprefix("meta-"))


def _measurements(asked: Mapping[str, Any], version: str) -> Any:
    """Returns what the SDK has measured for a system and a version of a backend, or None."""
    get = aic_sdk.module("perf_database").get_database
    try:
        return get(system=asked["system"], backend=asked["backend"], version=version)
    except Exception:  # newer releases explain at length
        return None


def _offered_versions(asked: Mapping[str, Any]) -> Sequence[str]:
    """Returns the versions that the SDK has for a system and a backend. Raises Refusal if it does not know one of
    those.
    """
    systems = _databases()
    for field, name, known in (
        ("aic_system", asked["system"], systems),
        ("aic_backend", asked["backend"], systems.get(asked["system"], {})),
    ):
        if not known.get(name):
            offered = ", ".join(sorted(offer for offer in known if known[offer])) or "<none>"
            raise Refusal(f"{field}: got {json.dumps(name)}, want one of {offered}")
    return systems[asked["system"]][asked["backend"]]


def _predictor(asked: Mapping[str, Any], database: Any) -> Predictor:
    """Predictions for a model, after one trial, which reads the tables of compiled ones."""
    with aic_sdk.quickly():
        model = _model(asked)
    failures = []
    for make in (_compiled, _walk):
        try:
            with aic_sdk.quickly():
                predictor = make(asked, model, database)
            if predictor is not None:
                with _without_lock() if make is _compiled else contextlib.nullcontext():
                    _finite(predictor.prefill(1, _TRIAL_TOKENS, 0))
                    _finite(predictor.decode(1, _TRIAL_TOKENS))
                return predictor
        except Exception as error:
            failures.append(_reason(error))
    where = f"{asked['backend']} {asked['version']} on {asked['system']}"
    raise NoPredictions(f"aic_model_path: {json.dumps(asked['model'])} has no predictions for {where}: {failures[0]}")


def _compiled(asked: Mapping[str, Any], model: Any, database: Any) -> Predictor | None:
    if os.environ.get(_NO_COMPILED_ENGINE):
        return None
    try:
        engine = aic_sdk.module("rust_engine_step")
    except ImportError:
        return None
    return CompiledEngine(engine._cached_engine_handle(model, database), _walk(asked, model, database))


def _walk(asked: Mapping[str, Any], model: Any, database: Any) -> OperationWalk:
    return OperationWalk(model, database, asked["model"], asked.get("nextn", 0))


def _model(asked: Mapping[str, Any]) -> Any:
    name: str = asked["model"]
    _check_folder(name)
    try:
        config = _model_config(asked)
        return aic_sdk.module("models").get_model(model_path=name, model_config=config, backend_name=asked["backend"])
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"{_blamed(error, asked)}: {_reason(error)}") from error


def _blamed(error: Exception, asked: Mapping[str, Any]) -> str:
    """Returns the start of the message about a model that the SDK refuses: its name if it is not found, else the sizes
    too.
    """
    name = json.dumps(asked["model"])
    if isinstance(error, OSError) or "Download" in type(error).__name__:
        near = spelling.closest(_plain_name(asked["model"]), {model: _plain_name(model) for model in known_models()})
        which = f", such as {', '.join(near)}," if near else ""
        return (
            f"aic_model_path: got {name}, want a model that the AIC SDK knows{which} or a folder with its config.json"
        )
    sizes = ", ".join(f"aic_{size} {value}" for size, value in _given_sizes(asked).items())
    return f"aic_model_path: {name} cannot be modelled with {sizes}"


def _check_folder(name: str) -> None:
    """Refuses a path that is no folder of a model, before the SDK looks for the name on a model hub."""
    looks_local = name.startswith(("/", "./", "../", "~")) or name in (".", "..")
    if (looks_local or os.path.isdir(name)) and not os.path.isfile(os.path.join(name, "config.json")):
        raise Refusal(f"aic_model_path: got {json.dumps(name)}, want a folder with the config.json of a model")


def _model_config(asked: Mapping[str, Any]) -> Any:
    sdk = aic_sdk.module("config").ModelConfig
    given = _given_sizes(asked)
    for name, (names, keyword) in _DATA_TYPES.items():
        if name in asked:
            given[keyword] = _data_type(f"aic_{name}", getattr(aic_sdk.module("common"), names), asked[name])
    if "nextn" in asked:
        given["nextn"] = asked["nextn"]
        # Which drafts are accepted is the simulator's part; the SDK is asked for a step that verifies all of them.
        if "nextn_accept_rates" in getattr(sdk, "__dataclass_fields__", {"nextn_accept_rates": None}):
            given["nextn_accept_rates"] = [0.0] * 5
    return sdk(**given)


def _given_sizes(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asked[name] for name in _SIZES if name in asked}


def _data_type(field: str, names: Any, name: str) -> Any:
    if name not in names.__members__:
        raise Refusal(f"{field}: got {json.dumps(name)}, want one of {', '.join(names.__members__)}")
    return names[name]


def _sdk() -> None:
    """Makes sure that the SDK is there."""
    try:
        with aic_sdk.quickly():
            aic_sdk.load()
    except ModuleNotFoundError as error:
        if error.name == aic_sdk.PACKAGE:
            raise Refusal(f"aic_backend: predictions need the AIC SDK, which is not installed: {_INSTALL}") from None
        raise Refusal(f"aic_backend: the AIC SDK cannot be loaded: {_reason(error)}") from error
    except Exception as error:
        raise Refusal(f"aic_backend: the AIC SDK cannot be loaded: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Returns an error on one line."""
    text = " ".join(str(error).split())
    if isinstance(error, Refusal):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
