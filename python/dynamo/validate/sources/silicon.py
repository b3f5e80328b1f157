"""The silicon table of aiconfigurator: mean TTFT and TPOT of benchmarks of vLLM and SGLang (``silicon_sample.csv``)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dynamo.validate import campaigns
from dynamo.validate.measurement import POOLS, Figures, Measurement, Parallelism
from dynamo.validate.sources.checks import BadSource, count, number
from dynamo.validate.sources.file import SourceFile

FORMAT = "silicon"
MARKS = ("silicon_ttft_ms", "silicon_tpot_ms")
CAMPAIGNS = ("inferencex", "gap")
_COLUMNS = (
    "id",
    "silicon_data_source",
    "backend",
    "backend_version",
    "model_path",
    "system",
    "precision",
    "mode",
    "isl",
    "osl",
)
_MEASURED = ("silicon_ttft_ms", "silicon_tpot_ms")
# DeepSeek-R1 and V3 have the same layers, and rows of one stand under both names: they are listed, and kept together,
# under this one.
_LISTED_AS = {"deepseek-ai/DeepSeek-R1": "deepseek-ai/DeepSeek-V3"}
# Parallelism of the one engine, or of prefill and decode workers, in the order of the table.
_SIZES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_POOLS = tuple(f"{pool}_{name}" for pool in POOLS for name in ("num_workers", *_SIZES))
_INFERENCEX_SHAPES = ((1024, 1024), (1024, 8192), (8192, 1024))


def recognised(file: SourceFile) -> bool:
    return "silicon_ttft_ms" in file.first_line.strip().split(",")


def read(file: SourceFile) -> list[Measurement]:
    """The rows of a table. Raises BadSource, naming file and line."""
    reader = csv.DictReader(io.StringIO(file.text), restval="")
    missing = [name for name in (*_COLUMNS, *_SIZES, *_POOLS, *_MEASURED) if name not in (reader.fieldnames or ())]
    if missing:
        raise BadSource(f"{file.name}: a silicon table needs the column {missing[0]}")
    return list(_rows(reader, file.name))


def _rows(reader: csv.DictReader[str], file: str) -> Iterator[Measurement]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadSource(f"{file} line {reader.line_num}: {error}") from None
        yield _measurement(row, file, f"{file} line {reader.line_num}")


def _measurement(row: Mapping[str, str], file: str, where: str) -> Measurement:
    isl, osl = count(row["isl"], f"{where}: isl"), count(row["osl"], f"{where}: osl")
    measurement = Measurement(
        id=row["id"],
        source=campaign(row["model_path"], isl, osl),
        file=file,
        engine=row["backend"],
        version=row["backend_version"],
        model=row["model_path"],
        system=row["system"],
        precision=row["precision"],
        mode=row["mode"],
        parallelism=Parallelism(
            *(
                count("1" if row[name] in ("", "0") else row[name], f"{where}: {name}")
                for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
            )
        ),
        concurrency=_concurrency(row["silicon_data_source"]),
        isl=isl,
        osl=osl,
        ttft=_mean(row, "silicon_ttft_ms", where),
        tpot=_mean(row, "silicon_tpot_ms", where),
        configuration=configuration(row),
        listed_as=_LISTED_AS.get(row["model_path"], ""),
        facts={**{name: row[name] for name in _POOLS}, **_measured(row["silicon_data_source"])},
    )
    ran = campaigns.corrected_parallelism(measurement)
    return measurement if ran is None else replace(measurement, configuration=configuration({**row, **_sizes(ran)}))


def _sizes(parallelism: Parallelism) -> dict[str, str]:
    """The columns of an engine."""
    sizes = (parallelism.tp, 1, parallelism.attention_dp, parallelism.moe_tp, parallelism.moe_ep)
    return dict(zip(_SIZES, map(str, sizes), strict=True))


def _mean(row: Mapping[str, str], name: str, where: str) -> Figures:
    """A mean; none where the table is blank."""
    return Figures(mean=number(row[name], f"{where}: {name}") if row[name] else None)


def campaign(model: str, isl: int, osl: int) -> str:
    """Which campaign a row is from: the scripts of ``inferencex`` are published, of ``gap`` only the table is known."""
    return "inferencex" if (isl, osl) in _INFERENCEX_SHAPES and model != "Qwen/Qwen3-32B" else "gap"


def configuration(row: Mapping[str, str]) -> str:
    """Model, system, precision, mode and all parallelism: what splits of the table keep together."""
    model = _LISTED_AS.get(row["model_path"], row["model_path"])
    return "|".join([model, row["system"], row["precision"], row["mode"], *(row[name] for name in (*_SIZES, *_POOLS))])


def _measured(source: str) -> dict[str, str]:
    """The date of a measurement, as year, month and day, where the source says it."""
    found = re.search(r"measured=(\d{4}-\d{2}-\d{2})", source)
    return {"measured": found[1]} if found else {}


def _concurrency(source: str) -> int | None:
    found = re.search(r"silicon_concurrency=(\d{1,7})(?!\d)", source)
    return int(found[1]) or None if found else None
