"""Tokenizes for a Go server: the tokenizer and the chat template in the folder of a model.

The folder is the only argument. The first line of the output describes the model; then each line of the input is a list
of questions and gets a line with a list of answers. Tokens are base64 of little-endian 32-bit numbers.
"""

import array
import base64
import contextlib
import datetime
import json
import random
import signal
import sys
from pathlib import Path
from typing import Any

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
    import tokenizers
    from tokenizers.decoders import DecodeStream
except ImportError as error:
    lacking = f"{error.name} is missing: pip install 'dynosim[serve]', or tokenizers and jinja2"
    print(json.dumps({"error": lacking, "missing": True}))
    sys.exit(0)


class InputError(Exception):
    """What is wrong with a text or a conversation."""


class Model:
    """The tokenizer and the chat template of a folder."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.config: dict[str, Any] = _read(folder / "tokenizer_config.json")
        self.template = self._template(folder)

    def _template(self, folder: Path) -> "jinja2.Template | None":
        file = folder / "chat_template.jinja"
        text: Any = file.read_text(encoding="utf-8") if file.exists() else self.config.get("chat_template")
        if isinstance(text, list):  # several with names
            named = {item["name"]: item["template"] for item in text}
            text = named.get("default") or next(iter(named.values()), None)
        if not isinstance(text, str):
            return None
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        return environment.from_string(text)

    def special_tokens(self) -> dict[str, str]:
        """The special tokens that templates know by name."""
        found = {}
        for name, value in self.config.items():
            if name.endswith("_token") and name != "add_bos_token":
                text = value.get("content") if isinstance(value, dict) else value
                if isinstance(text, str):
                    found[name] = text
        return found

    def render(self, chat: dict[str, Any]) -> str:
        """The text of a conversation."""
        if self.template is None:
            raise InputError("the model has no chat template: use /v1/completions")
        messages = [dict(message) for message in chat["messages"] or []]
        for message in messages:
            for call in message.get("tool_calls") or []:
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                    with contextlib.suppress(ValueError):  # the template gets the text
                        function["arguments"] = json.loads(function["arguments"])
        known = {
            **self.special_tokens(),
            **(chat.get("chat_template_kwargs") or {}),
            "messages": messages,
            "tools": chat.get("tools"),
            "documents": None,
            "add_generation_prompt": chat["add_generation_prompt"],
        }
        try:
            return self.template.render(known)
        except InputError as error:
            raise InputError(f"messages: the chat template refuses them: {error}") from None
        except Exception as error:
            raise InputError(f"messages: the chat template fails: {type(error).__name__}: {error}") from None

    def pieces(self, text: str, marks: list[str]) -> list[str]:
        """The tokens between marks in a text, which must be there in this order."""
        packed = []
        for mark in marks:
            before, found, text = text.partition(mark)
            if not found:
                raise InputError("messages: the chat template leaves an image out")
            packed.append(_packed(self.tokenizer.encode(before, add_special_tokens=False).ids))
        return [*packed, _packed(self.tokenizer.encode(text, add_special_tokens=False).ids)]

    def spoken(self, text: str) -> tuple[list[int], str, list[int]]:
        """The tokens of a text, what they say, and for each the length in bytes of what is known with it."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.said(ids)

    def said(self, ids: list[int]) -> tuple[list[int], str, list[int]]:
        """The same for tokens."""
        stream = DecodeStream(skip_special_tokens=False)
        parts, ends, length = [], [], 0
        for token in ids:
            part = stream.step(self.tokenizer, token) or ""
            parts.append(part)
            length += len(part.encode("utf-8", "replace"))
            ends.append(length)
        return ids, "".join(parts), ends

    def vocabulary(self) -> tuple[list[int], list[str]]:
        """Tokens that are a word with a blank in front, of which texts can be made up, and what they say.

        A text of them is tokenized as these tokens again: the next turn of a conversation finds them in the cache.
        """
        rng = random.Random(0)
        vocabulary = sorted(self.tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
        words = {token: name for name, token in vocabulary if _word(name[1:]) and name[:1] in ("Ġ", "▁", " ")}
        candidates = list(words.items())
        if len(candidates) < 16:  # no such tokens: any that are letters
            candidates = [(token, name) for name, token in vocabulary if _word(name)]
        rng.shuffle(candidates)
        ids, texts = [], []
        for token, _ in candidates[:4096]:
            _, text, ends = self.said([*(ids[-1:] or [token]), token])
            before = ends[-2] if len(ends) > 1 else 0
            said = text.encode()[before:].decode()
            if not said.strip().isalpha() or (ids and not self._stable([*ids[-2:], token])):
                continue
            ids.append(token)
            texts.append(said)
        if not ids:
            token = next(iter(self.tokenizer.get_vocab(with_added_tokens=False).values()))
            return [token], [self.said([token, token])[1] or "?"]
        return ids, texts

    def _stable(self, ids: list[int]) -> bool:
        return self.tokenizer.encode(self.tokenizer.decode(ids), add_special_tokens=False).ids[1:] == ids[1:]


def _word(name: str) -> bool:
    return 2 <= len(name) <= 12 and name.isascii() and name.isalpha()


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise InputError(message)


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _packed(ids: list[int]) -> str:
    return base64.b64encode(array.array("I", ids).tobytes()).decode("ascii")


def _answers(model: Model, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers a batch: all texts that only have to be tokenized at once."""
    answers: list[dict[str, Any]] = [{} for _ in questions]
    texts: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    for i, question in enumerate(questions):
        try:
            if question["kind"] == "prompt":
                texts[question["special"]].append((i, question["text"]))
            elif question["kind"] == "chat":
                text = model.render(question["chat"]).encode("utf-8", "replace").decode()  # without half characters
                if question.get("marks"):
                    answers[i] = {"pieces": model.pieces(text, question["marks"])}
                else:
                    texts[False].append((i, text))
            else:
                ids, text, ends = model.spoken(question["text"])
                answers[i] = {"tokens": _packed(ids), "text": text, "ends": _packed(ends)}
        except InputError as error:
            answers[i] = {"error": str(error)}
        except Exception as error:
            answers[i] = {"error": f"{type(error).__name__}: {error}"}
    for special, batch in texts.items():
        encoded = (
            model.tokenizer.encode_batch_fast([text for _, text in batch], add_special_tokens=special) if batch else []
        )
        for (i, _), found in zip(batch, encoded, strict=True):
            answers[i] = {"tokens": _packed(found.ids)}
    return answers


def main() -> None:
    """Answers questions until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends this process
    try:
        model = Model(Path(sys.argv[1]))
        ids, texts = model.vocabulary() if sys.argv[2:] == ["vocabulary"] else ([], [])
        description = {"words": _packed(ids), "texts": texts}
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return
    print(json.dumps(description), flush=True)
    for line in sys.stdin:
        print(json.dumps(_answers(model, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
