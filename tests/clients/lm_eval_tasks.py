# pip: lm-eval[api] transformers
"""lm-eval itself, with a tokenizer of its own and with the server's: likelihoods of choices by echo, and answers that
are compared, of tasks of two questions."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

QUESTIONS = [
    {"question": "The sky is", "choices": [" blue", " green"], "answer": 0},
    {"question": "Two and two are", "choices": [" four", " nine", " ten"], "answer": 0},
]
COMMON = """dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
doc_to_text: "{{{{question}}}}"
"""
CHOICE = """task: tiny_choice
output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc}]
"""
TEXT = """task: tiny_text
output_type: generate_until
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["?"], max_gen_toks: 8}
metric_list: [{metric: exact_match}]
"""


def byte_names() -> list[str]:
    """The characters by which tokenizers of bytes call them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def make_tokenizer(folder: Path) -> None:
    """The tokenizer of builtin:bytes: a token is a byte."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "vocab": {name: byte for byte, name in enumerate(byte_names())}, "merges": []}
    document = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "!", "model_max_length": 2048}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def evaluate(url: str, folder: Path, tokenizer: str) -> None:
    """Runs both tasks, and looks at what lm-eval says of them."""
    out = folder / tokenizer.partition(",")[0]
    where = f"model=builtin:bytes,base_url={url}/v1/completions,tokenizer_backend={tokenizer}"
    command = [str(Path(sys.executable).parent / "lm_eval"), "--model", "local-completions", "--model_args", where]
    command += ["--include_path", str(folder), "--tasks", "tiny_choice,tiny_text", "--output_path", str(out)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    subprocess.run([*command, "--log_samples"], check=True, env=environment)
    results = json.loads(next(out.glob("**/results*.json")).read_text())["results"]
    assert 0 <= results["tiny_choice"]["acc,none"] <= 1, results
    assert 0 <= results["tiny_text"]["exact_match,none"] <= 1, results
    samples = [json.loads(line) for p in out.glob("**/samples_tiny_choice*.jsonl") for line in p.open()]
    scores = [float(answer[0][0]) for sample in samples for answer in sample["resps"]]
    assert len(scores) == 5, scores
    assert all(score < 0 for score in scores), scores


def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tokenizer(folder)
        data = folder / "data.jsonl"
        data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
        for task, text in (("choice", CHOICE), ("text", TEXT)):
            (folder / f"{task}.yaml").write_text(text + COMMON.format(data=data))
        for tokenizer in (f"huggingface,tokenizer={folder}", "remote"):  # the latter is the server's, by its endpoints
            evaluate(url, folder, tokenizer)


if __name__ == "__main__":
    main(sys.argv[1])
