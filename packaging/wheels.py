"""Builds wheels for Linux against an old glibc, and tests them in clean environments without Go.

    python packaging/wheels.py build [--pythons PATH...] [--targets x86_64 aarch64]
    python packaging/wheels.py test [--pythons PATH...] [--extras data plots ray]

``build`` needs Go and the package index; the C compiler is that of the package ziglang. ``test`` needs the package
index for dependencies only. Wheels are in dist/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheels"
VERSIONS = [(3, minor) for minor in range(10, 15)]
GLIBC = "2.28"
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}  # and Go's names
LARGEST_MB = 13
# Modules by which the extras that can be tried are recognised; Ray and the AIC SDK have no wheels for later Pythons.
MODULES = {
    "data": "pandas",
    "plots": "plotly",
    "ray": "ray",
    "sweep": "optuna",
    "calibrate": "scipy",
    "aic": "aiconfigurator",
}
LAST_WITH_EXTRAS = 13
(REQUIRED,) = re.findall(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
BUILD_REQUIREMENTS = [name.strip(' "') for name in REQUIRED.split(",")]


class Python(NamedTuple):
    """An interpreter, and its version as in the tags of wheels."""

    path: str
    minor: int

    @property
    def tag(self) -> str:
        return f"cp3{self.minor}"


def interpreters(given: list[str] | None) -> list[Python]:
    """Those given, or one for each version that is on PATH, where pyenv keeps them, or runs this."""
    if given:
        return [asked(path) for path in given]
    found: dict[int, Python] = {}
    for path in [sys.executable, *candidates()]:
        try:
            python = asked(path)
        except (OSError, subprocess.CalledProcessError):  # a shim of pyenv without its version
            continue
        if (3, python.minor) in VERSIONS:
            found.setdefault(python.minor, python)
    return [found[minor] for minor in sorted(found)]


def candidates() -> list[str]:
    names = [f"python{major}.{minor}" for major, minor in VERSIONS]
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python"))
    return [path for path in [*map(shutil.which, names), *map(str, pyenv)] if path]


def asked(path: str) -> Python:
    """Asks an interpreter for its version."""
    script = "import sys; print(sys.version_info.minor, sys.executable)"
    answer = subprocess.run([path, "-c", script], check=True, capture_output=True, text=True).stdout.split(maxsplit=1)
    return Python(answer[1].strip(), int(answer[0]))


def environment(python: Python, name: str, *packages: str) -> Path:
    """A new environment of an interpreter; returns the path of its interpreter."""
    folder = WORK / name
    subprocess.run([python.path, "-m", "venv", "--clear", str(folder)], check=True)
    inside = folder / "bin" / "python"
    if packages:
        pip(inside, "install", *packages)
    return inside


def pip(python: Path, *arguments: str) -> None:
    quiet = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*quiet, *arguments], check=True, cwd=WORK, env=without_go())


def build(pythons: list[Python], targets: list[str]) -> None:
    """One wheel for each interpreter and processor."""
    compiler = environment(asked(sys.executable), "ziglang", "ziglang>=0.14")
    for python in pythons:
        builder = environment(python, f"build-{python.tag}", *BUILD_REQUIREMENTS)
        for target in targets:
            build_one(python, builder, compiler, target)
    for wheel in sorted(DIST.glob("*.whl")):
        check_content(wheel)
    print(f"{len(list(DIST.glob('*.whl')))} wheels in {DIST.relative_to(ROOT)}/")


def build_one(python: Python, builder: Path, compiler: Path, target: str) -> None:
    settings = {
        "CC": f"{compiler} {ROOT / 'packaging' / 'zigcc.py'} -target {target}-linux-gnu.{GLIBC}",
        "GOOS": "linux",
        "GOARCH": PROCESSORS[target],
        # A tag of the wheel and the name of the extension are those of the target, not of this machine.
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-3{python.minor}-{target}-linux-gnu.so",
    }
    for leftover in [*(ROOT / "build").glob("lib*"), *(ROOT / "build").glob("bdist*")]:
        shutil.rmtree(leftover)
    plat_name = f"manylinux_{GLIBC.replace('.', '_')}_{target}"
    command = [str(builder), "setup.py", "--quiet", "bdist_wheel", "--plat-name", plat_name, "--dist-dir", str(DIST)]
    log = WORK / f"{python.tag}-{target}.log"
    with log.open("w") as output:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, stdout=output, stderr=output)
    if done.returncode:
        sys.exit(f"error: the wheel of {python.tag} for {target} cannot be built; see {log.relative_to(ROOT)}")
    print(f"built the wheel of {python.tag} for {target}", flush=True)


def check_content(wheel: Path) -> None:
    """Both extensions and a moderate size, and no path of this machine in them."""
    size = wheel.stat().st_size / 1e6
    with zipfile.ZipFile(wheel) as packed:
        extensions = [name for name in packed.namelist() if name.endswith(".so")]
        foreign = [name for name in extensions if str(ROOT).encode() in packed.read(name)]
    if len(extensions) != 2 or size > LARGEST_MB or foreign:
        sys.exit(f"error: {wheel.name}: {size:.1f} MB, extensions {extensions}, with paths of this machine: {foreign}")
    print(f"{wheel.name}: {size:.1f} MB")


def without_go() -> dict[str, str]:
    """The environment of a user: nothing on PATH that has Go, no settings of Python."""
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "go").exists()]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PATH": os.pathsep.join(folders)}


def test(pythons: list[Python], extras: list[str]) -> None:
    """Installs the wheels of this processor from a local index, replays the example and serves a request.

    The last Python for which all extras have wheels installs those, too, and uses the tables of [data].
    """
    tried = 0
    for python in pythons:
        wheels = list(DIST.glob(f"dynosim-*-{python.tag}-{python.tag}-manylinux*_{platform.machine()}.whl"))
        if not wheels:
            print(f"no wheel of {python.tag} for {platform.machine()}")
            continue
        inside = environment(python, f"test-{python.tag}")
        pip(inside, "install", "--find-links", str(DIST), "--only-binary", "dynosim", "--no-cache-dir", "dynosim")
        try_one(inside)
        tried += 1
        print(f"{wheels[0].name} replays and serves without Go", flush=True)
    if tried and extras:
        try_extras(max(python for python in pythons if python.minor <= LAST_WITH_EXTRAS), extras)
    if not tried:
        sys.exit("error: no wheel to test; run make wheels")


def try_extras(python: Python, extras: list[str]) -> None:
    inside = environment(python, f"extras-{python.tag}")
    wanted = f"dynosim[{','.join(extras)}]"
    pip(inside, "install", "--find-links", str(DIST), "--only-binary", "dynosim", wanted)
    script = (
        "from dynamo.replay import run_synthetic_trace_replay as run\n"
        "table = run(20, 3, 5).requests.to_pandas() if 'data' in {extras} else range(5)\n"
        "assert len(table) == 5\n"
    )
    modules = [MODULES[extra] for extra in extras]
    script = script.replace("{extras}", repr(extras)) + "".join(f"import {name}\n" for name in modules)
    subprocess.run([str(inside), "-c", script], cwd=WORK, env=without_go(), check=True)
    print(f"{wanted} works on Python 3.{python.minor}", flush=True)


def try_one(python: Path) -> None:
    program = str(python.parent / "dynosim")
    trace = str(ROOT / "examples/traces/conversation_400.jsonl.gz")
    with tempfile.TemporaryDirectory() as folder:
        replay = [program, "replay", trace, "--num-workers", "2", "--report-json", "report.json"]
        subprocess.run(replay, cwd=folder, env=without_go(), check=True, stdout=subprocess.DEVNULL)
        report = json.loads((Path(folder) / "report.json").read_text())
        assert report["completed_requests"] == 400, report
        serve = [str(python), str(ROOT / "packaging" / "serve_once.py"), str(ROOT / "examples/models/tiny")]
        subprocess.run(serve, cwd=folder, env=without_go(), check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "test"])
    parser.add_argument("--pythons", nargs="+", metavar="PATH", help="interpreters (default: all that are found)")
    parser.add_argument("--targets", nargs="+", choices=PROCESSORS, default=list(PROCESSORS), help="processors")
    parser.add_argument(
        "--extras", nargs="*", choices=MODULES, default=["data", "plots", "ray"], help="extras to try (data plots ray)"
    )
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    pythons = interpreters(options.pythons)
    print("Python", ", ".join(f"3.{python.minor} ({python.path})" for python in pythons), flush=True)
    if options.what == "build":
        build(pythons, options.targets)
    else:
        test(pythons, options.extras)


if __name__ == "__main__":
    main()
