"""Makes tokenizers of many kinds with the library tokenizers, and says what they decode tokens to.

Each line of the output is JSON: {"name": ..., "tokenizer": ...}, then for each text {"ids": [...], "text": ...,
"all": ...} with special tokens left out and kept, until the next tokenizer. The arguments are the number of texts and
more tokenizer.json files.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

# Letters of 20 scripts, each as ranges of characters.
SCRIPTS = {
    "Latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F)],
    "Greek": [(0x391, 0x3C9)],
    "Cyrillic": [(0x410, 0x44F)],
    "Armenian": [(0x531, 0x556), (0x561, 0x586)],
    "Hebrew": [(0x5D0, 0x5EA)],
    "Arabic": [(0x621, 0x64A)],
    "Devanagari": [(0x905, 0x94D)],
    "Bengali": [(0x985, 0x9B9)],
    "Gurmukhi": [(0xA05, 0xA39)],
    "Tamil": [(0xB85, 0xBCD)],
    "Telugu": [(0xC05, 0xC4D)],
    "Thai": [(0xE01, 0xE3A)],
    "Lao": [(0xE81, 0xEB9)],
    "Myanmar": [(0x1000, 0x1039)],
    "Georgian": [(0x10D0, 0x10F0)],
    "Ethiopic": [(0x1200, 0x135A)],
    "Hangul": [(0xAC00, 0xAF00)],
    "Kana": [(0x3041, 0x3096), (0x30A1, 0x30FA)],
    "Han": [(0x4E00, 0x5000), (0x20000, 0x20100)],
    "Emoji": [(0x1F300, 0x1F64F), (0x200D, 0x200D), (0x2764, 0x2764), (0xFE0F, 0xFE0F)],
}
MARKS = [*"    \n\t\u2581\x00|\ufffd", "  ", ", ", ". ", "! ", "? ", " ' ", "n't ", " 's ", "12 ", "<0x41>", "<s>"]
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]


def texts(count: int, rng: random.Random) -> list[str]:
    """Texts of words of one script each, and some of several."""
    ranges = list(SCRIPTS.values())
    pools = [[chr(c) for first, last in one for c in range(first, last + 1)] for one in ranges]
    found = []
    for i in range(count):
        pool = pools[i % len(pools)]
        parts = []
        for _ in range(rng.randrange(0, 5)):
            if rng.random() < 0.1:
                pool = rng.choice(pools)
            letters = pool[: rng.choice([8, 30, len(pool)])]
            parts.append("".join(rng.choices(letters, k=rng.randrange(1, 7))) + rng.choice(MARKS))
        found.append("".join(parts))
    return found


def byte_names() -> list[str]:
    return [f"<0x{b:02X}>" for b in range(256)]


def byte_level(corpus: list[str]) -> Tokenizer:
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options: dict[str, Any] = {"special_tokens": SPECIAL, "initial_alphabet": alphabet, "show_progress": False}
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1500, **options))
    t.add_tokens([AddedToken("Grüße", normalized=False), "世界 ", "\u0144"])
    t.add_special_tokens(["<|im_start|>"])
    return t


def byte_fallback(corpus: list[str], *rest: Any) -> Tokenizer:
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *rest])
    special = [*SPECIAL[:3], *byte_names()]
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, limit_alphabet=300, show_progress=False)
    t.train_from_iterator(corpus, trainer)
    return t


def unigram(corpus: list[str], scheme: str) -> Tokenizer:
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    t.decoder = decoders.Metaspace(prepend_scheme=scheme)
    options: dict[str, Any] = {"special_tokens": SPECIAL, "unk_token": "<unk>", "show_progress": False}
    t.train_from_iterator(corpus[:2000], trainers.UnigramTrainer(vocab_size=3500, **options))
    return t


def word_piece(corpus: list[str], cleanup: bool) -> Tokenizer:
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=cleanup)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=2500, special_tokens=special, show_progress=False)
    t.train_from_iterator(corpus, trainer)
    t.add_tokens([" do not", "##x ."])
    return t


def word_level(corpus: list[str]) -> Tokenizer:
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=1500, special_tokens=SPECIAL, show_progress=False)
    t.train_from_iterator(corpus, trainer)
    return t


def ends_of_words(corpus: list[str]) -> Tokenizer:
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.decoder = decoders.BPEDecoder()
    options: dict[str, Any] = {"special_tokens": SPECIAL, "limit_alphabet": 400, "show_progress": False}
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1500, end_of_word_suffix="</w>", **options))
    return t


def trained(corpus: list[str]) -> dict[str, Tokenizer]:
    """Tokenizers as well-known models have them."""
    return {
        "byte-level BPE": byte_level(corpus),
        "Llama 2": byte_fallback(corpus, decoders.Strip(" ", 1, 0)),
        "Gemma": byte_fallback(corpus),
        "Unigram, always": unigram(corpus, "always"),
        "Unigram, first": unigram(corpus, "first"),
        "Unigram, never": unigram(corpus, "never"),
        "WordPiece": word_piece(corpus, True),
        "WordPiece, no cleanup": word_piece(corpus, False),
        "WordLevel without a decoder": word_level(corpus),
        "BPE with ends of words": ends_of_words(corpus),
    }


NAMES = """a b ▁ ▁▁a a▁ <0xE4> <0xBD> <0xA0> <0xFF> <0x41> <0x4> <0xzz> aab aabaab aa <pad> | a|b a</w> </w>b</w> ##a
    a## Ġa ä Ń Ã ¤ ½ł ä½ł 漢 e<pad>e xab bxa"""


def composed() -> dict[str, Tokenizer]:
    """Decoders on a vocabulary whose tokens meet each of their rules."""
    names = [*NAMES.split(), "  a ", " ", " .", " n't"]
    fallback, fuse = decoders.ByteFallback(), decoders.Fuse()
    chains: dict[str, list[Any]] = {
        "CTC": [decoders.CTC()],
        "CTC, no cleanup": [decoders.CTC(pad_token="a", word_delimiter_token="b", cleanup=False)],
        "BPEDecoder in between": [decoders.BPEDecoder(), decoders.ByteLevel()],
        "Strip": [decoders.Strip(" ", 1, 0)],
        "Strip after Fuse": [fuse, decoders.Strip("a", 2, 0), decoders.Replace("aab", "c")],
        "Replace after Fuse": [fuse, decoders.Replace("aaba", "<>")],
        "Replace after bytes": [fallback, decoders.Replace("a", "bb"), decoders.Replace("bb", ""), fuse],
        "nested": [decoders.Sequence([decoders.Replace("▁", " "), fallback]), decoders.WordPiece(prefix="b")],
        "Metaspace with another mark": [decoders.Metaspace(replacement="a", prepend_scheme="always")],
        "Metaspace after bytes": [fallback, decoders.Metaspace()],
        "byte level after bytes": [fallback, fuse, decoders.ByteLevel()],
        "empty sequence": [],
    }
    found = {}
    for name, chain in chains.items():
        t = Tokenizer(models.WordLevel({text: i for i, text in enumerate(names)}, unk_token="a"))
        t.add_special_tokens(["<s>", "▁"])
        t.add_tokens(["▁new", "<0x42>"])
        t.decoder = chain[0] if len(chain) == 1 else decoders.Sequence(chain)
        found[name] = t
    return found


def with_holes(source: str) -> str:
    """A file whose added tokens have numbers that the library ignores, no text, or a text that is there already."""
    content = json.loads(source)
    for i, text in enumerate(["<x>", "<y>", "", "<z>", "<x>", "<s>"]):
        row = {"id": 90000 - i, "content": text, "special": i % 2 == 0}
        content["added_tokens"].append(row | dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False))
    return json.dumps(content)


def show(name: str, source: str, t: Tokenizer, samples: list[str], rng: random.Random) -> None:
    print(json.dumps({"name": name, "tokenizer": json.loads(source)}))
    size = max(t.get_vocab(with_added_tokens=True).values()) + 3
    lists = [encoded.ids for encoded in t.encode_batch_fast(samples, add_special_tokens=False)] if samples else []
    lists += [[rng.randrange(size) for _ in range(rng.randrange(0, 12))] for _ in range(1000)]
    for ids in lists:
        print(json.dumps({"ids": ids, "text": t.decode(ids), "all": t.decode(ids, skip_special_tokens=False)}))


def main() -> None:
    rng = random.Random(23)
    samples = texts(int(sys.argv[1]), rng)
    found = trained(samples[:5000])
    for name, t in found.items():
        show(name, t.to_str(), t, samples, rng)
    for name, t in composed().items():
        show(name, t.to_str(), t, [], rng)
    holes = with_holes(found["byte-level BPE"].to_str())
    show("numbers with holes", holes, Tokenizer.from_str(holes), [], rng)
    for file in sys.argv[2:]:
        t = Tokenizer.from_file(file)
        show(file, Path(file).read_text(encoding="utf-8"), t, samples, rng)


if __name__ == "__main__":
    main()
