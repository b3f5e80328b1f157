"""Builds the Go core into the extension modules of dynamo._core; everything else is in pyproject.toml."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError

ROOT = Path(__file__).resolve().parent
# Inside the module, because gopy generates a Go package there; the underscore keeps it out of `./...`.
SCRATCH = ROOT / "_gopy"
OLDEST_GO = (1, 26)
# Extension modules and the Go packages they come from, by the name of the part of dynosim that needs them.
PARTS = {"replay": ("dynamo._core._core", "./bindings"), "live": ("dynamo._core._live", "./bindings/live")}
PACKAGES = dict(PARTS.values())
# Packages that run seldom: at starts, for arguments, for certificates, for the store of discovery.
# Without inlining they take 0.4 MB less of a compressed wheel. The last pattern that fits a package counts.
COMPACT = (
    *("google.golang.org/grpc/...", "google.golang.org/genproto/...", "google.golang.org/protobuf/..."),
    *("go.etcd.io/...", "go.uber.org/...", "github.com/coreos/...", "github.com/golang/protobuf/..."),
    *("github.com/grpc-ecosystem/...", "github.com/klauspost/cpuid/...", "github.com/prometheus/..."),
    *("github.com/santhosh-tekuri/...", "golang.org/x/...", "go.yaml.in/...", "sigs.k8s.io/..."),
    *("crypto/tls", "crypto/x509", "encoding/asn1", "encoding/gob", "regexp/syntax", "vendor/..."),
    *("dynosim/gocore/engineargs", "dynosim/gocore/deploy", "dynosim/gocore/models", "dynosim/gocore/calibration"),
    *(
        "dynosim/gocore/live/store/...",
        "dynosim/gocore/serve",
        "dynosim/gocore/fieldtable",
        "dynosim/gocore/aic",
        "dynosim/gocore/faults",
    ),
)
BUSY = ("google.golang.org/protobuf/encoding/protowire",)  # writes timelines


class MissingTool(BaseError):
    """A build requirement that pip cannot install. setuptools prints it as one line."""


def extensions() -> list[Extension]:
    """Both extensions, or those of the parts in DYNOSIM_PARTS: live workers take most of the time of a build."""
    parts = (os.environ.get("DYNOSIM_PARTS") or ",".join(PARTS)).split(",")
    for part in parts:
        if part not in PARTS:
            raise SystemExit(f"error: DYNOSIM_PARTS: got {part!r}, want {' or '.join(PARTS)}, or both as replay,live")
    return [Extension(PARTS[part][0], sources=[]) for part in parts]


def build_environment() -> dict[str, str]:
    """The environment for Go: no paths of this machine and no version control stamps in the binary.

    The extensions are shared libraries. With the build mode pie, tools and the types that gopy reads are compiled as
    shared libraries are, so every package is compiled once, not twice. Without its traces, gRPC needs no templates;
    with templates, which call methods by name, the linker has to keep all methods: 8 MB more.
    """
    flags = f"{os.environ.get('GOFLAGS', '')} -trimpath -buildvcs=false -buildmode=pie -tags=grpcnotrace"
    flags += "".join(f" -gcflags={pattern}=-l" for pattern in COMPACT)
    flags += "".join(f" -gcflags={pattern}=" for pattern in BUSY)
    # gopy passes on the linker flags of Python. Debian's later ones have -fwrapv and the like, which cgo refuses.
    return {"CGO_LDFLAGS_ALLOW": "-f.*", **os.environ, "GOFLAGS": flags.strip(), "CGO_ENABLED": "1"}


def tools_environment() -> dict[str, str]:
    """The environment for programs that run during the build: for this machine, whatever the extensions are for."""
    foreign = ("GOOS", "GOARCH", "GOARM64", "GOAMD64", "CC", "CXX")
    return {name: value for name, value in build_environment().items() if name not in foreign}


def check_go() -> None:
    wanted = "Go {}.{} or newer is needed to build dynosim".format(*OLDEST_GO)
    if shutil.which("go") is None:
        raise MissingTool(f"{wanted}: `go` was not found on PATH")
    asked = subprocess.run(["go", "env", "GOVERSION"], cwd=ROOT, capture_output=True, text=True)
    version = re.match(r"go(\d+)\.(\d+)", asked.stdout)
    if version is None:
        reason = (asked.stderr.strip() or "no version given").splitlines()[-1]
        raise MissingTool(f"{wanted}: `go env GOVERSION` failed: {reason}")
    if (int(version[1]), int(version[2])) < OLDEST_GO:
        raise MissingTool(f"{wanted}: found {asked.stdout.strip()}")


def check_c_compiler() -> None:
    compiler = c_compiler()
    if not compiler or shutil.which(compiler[0]) is None:
        name = compiler[0] if compiler else "gcc"
        raise MissingTool(f"a C compiler is needed to build dynosim: `{name}` was not found on PATH (or set CC)")
    if reason := fault_of_program("#include <stdlib.h>"):
        raise MissingTool(
            f"a C compiler is needed to build dynosim: `{' '.join(compiler)}` cannot build a program: {reason}"
            " (Debian and Ubuntu: apt-get install gcc libc6-dev)"
        )


def check_python_headers() -> None:
    folders = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    if reason := fault_of_program("#include <Python.h>", *(f"-I{folder}" for folder in sorted(folders))):
        raise MissingTool(
            f"the headers of Python {sysconfig.get_python_version()} are needed to build dynosim: {reason}"
            " (Debian and Ubuntu: apt-get install python3-dev)"
        )


def c_compiler() -> list[str]:
    return subprocess.run(["go", "env", "CC"], cwd=ROOT, capture_output=True, text=True).stdout.split()


def fault_of_program(head: str, *flags: str) -> str:
    """Why a C program that does nothing, with these first lines, cannot be built; "" if it can."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text(f"{head}\nint main(void) {{ return 0; }}\n")
        command = [*c_compiler(), *flags, "-o", str(source.with_suffix("")), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            return str(error)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), f"exit code {done.returncode}").replace(f"{folder}/", "")


class GopyExtension(build_ext):
    """Runs gopy on the packages of bindings/ and ships the one file of each output that is needed."""

    def build_extensions(self) -> None:
        check_go()
        check_c_compiler()
        check_python_headers()
        shutil.rmtree(SCRATCH, ignore_errors=True)
        # gopy calls goimports by name: build the versions pinned in go.mod and put them first on PATH.
        self.environment = tools_environment()
        tools = ["golang.org/x/tools/cmd/goimports", "github.com/go-python/gopy"]
        self.run_tool(["go", "build", "-o", f"{SCRATCH / 'bin'}{os.sep}", *tools])
        path = f"{SCRATCH / 'bin'}{os.pathsep}{self.environment['PATH']}"
        self.environment = {**build_environment(), "PATH": path}
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        module = ext.name.rpartition(".")[2]
        # dynamic-link leaves Python's own symbols open, so that the extension needs no libpython of the builder.
        gopy = [str(SCRATCH / "bin" / "gopy"), "build", f"-output=_gopy/{module}", f"-vm={sys.executable}"]
        gopy += ["-dynamic-link=true", "-no-make", "-symbols=false", PACKAGES[ext.name]]
        self.run_tool(gopy)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        (built,) = (SCRATCH / module).glob(f"{module}*.so")
        shutil.copy2(built, target)

    def run_tool(self, command: list[str]) -> None:
        if subprocess.run(command, cwd=ROOT, env=self.environment).returncode:
            name = Path(command[0]).name
            raise BaseError(f"`{' '.join([name, *command[1:]])}` failed; its output is above")


class VersionedModules(build_py):
    """Writes the version, which a tag decides, into the installed copy of version.py."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # there is no copy: sources are used where they are, without a version
            return
        path = Path(self.build_lib, "dynamo", "_core", "version.py")
        path.write_text(
            re.sub(r"(?m)^VERSION = .*$", f'VERSION = "{self.distribution.get_version()}"', path.read_text())
        )


setup(ext_modules=extensions(), cmdclass={"build_ext": GopyExtension, "build_py": VersionedModules})
