"""Writes the model folder examples/models/tiny: all that workers and a frontend need of a model, without its weights.

    python examples/models/make_tiny.py [FOLDER]

The tokenizer is a byte-level BPE with 2,000 tokens, trained on corpus.txt and the licence of this project, so that the
same files come out everywhere. English text takes about half as many tokens as characters. Simulated workers draw
tokens 1000 to 1999, which are words and parts of words.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CORPUS = [HERE / "corpus.txt", HERE.parents[1] / "LICENSE"]
SPECIAL = ["<unk>", "<s>", "</s>"]
NUM_TOKENS = 2000
CONTEXT_LENGTH = 131072  # tokens
# The split of GPT-2, which the pre-tokenizer below repeats on any text; the corpus is plain ASCII.
PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)

Piece = tuple[str, ...]
Pair = tuple[str, str]


def byte_letters() -> list[str]:
    """The letter that stands for each byte in the vocabulary: itself if it can be seen, else one from U+0100 on."""
    visible = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte if byte in visible else 256 + hidden.index(byte)) for byte in range(256)]


def train(text: str, num_merges: int) -> list[Pair]:
    """The merges of a BPE, most frequent pair first; of equally frequent ones the first in the alphabet."""
    letters = byte_letters()
    pieces = Counter(tuple(letters[byte] for byte in piece.encode()) for piece in PIECES.findall(text))
    merges: list[Pair] = []
    while len(merges) < num_merges:
        pairs: Counter[Pair] = Counter()
        for piece, count in pieces.items():
            for pair in pairwise(piece):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        pieces = Counter({merged(piece, best): count for piece, count in pieces.items()})
    return merges


def merged(piece: Piece, pair: Pair) -> Piece:
    """A piece in which every occurrence of the pair, from the left, is one token."""
    tokens: list[str] = []
    for token in piece:
        if tokens and (tokens[-1], token) == pair:
            tokens[-1] += token
        else:
            tokens.append(token)
    return tuple(tokens)


def tokenizer(text: str) -> dict[str, Any]:
    """The content of tokenizer.json."""
    base = [*SPECIAL, *byte_letters()]
    merges = train(text, NUM_TOKENS - len(base))
    vocabulary = [*base, *("".join(pair) for pair in merges)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, token in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(vocabulary)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }


def files(text: str) -> dict[str, dict[str, Any]]:
    """The content of each file of the model. The architecture is a Llama too small to be of any use."""
    return {
        "tokenizer.json": tokenizer(text),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "model_max_length": CONTEXT_LENGTH,
            "chat_template": CHAT_TEMPLATE,
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "vocab_size": NUM_TOKENS,
            "max_position_embeddings": CONTEXT_LENGTH,
            "torch_dtype": "bfloat16",
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files("".join(path.read_text(encoding="ascii") for path in CORPUS)).items():
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / name).write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
