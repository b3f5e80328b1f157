"""Where live workers listen, by the sockets that their process has, and what they tell others about that."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from pathlib import Path

import pytest
from livetools import Service, get, make_model, records, until
from test_live import Workers, bad_input, free_port

EVERYWHERE = "::"  # IPv4 and IPv6
NO_CHOICE = {"DYN_TCP_RPC_HOST": "", "DYN_HTTP_RPC_HOST": "", "DYN_SYSTEM_HOST": ""}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


def listening(service: Service) -> dict[int, str]:
    """The address of each port where a process listens."""
    folder = Path("/proc", str(service.process.pid))
    mine = set()
    for fd in (folder / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            mine.add(os.readlink(fd))
    found = {}
    for table in ("tcp", "tcp6"):
        for line in (folder / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in mine:
                address, _, port = fields[1].partition(":")
                words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
                found[int(port, 16)] = str(ipaddress.ip_address(b"".join(words)))
    return found


def prefill_workers(folder: Path, model: str, *arguments: str, host: str = "127.0.0.1", **environment: str) -> Workers:
    """A worker with a socket of every kind; its status server answers at host."""
    ports = {flag: str(free_port()) for flag in ("--bootstrap-ports", "--zmq-kv-events-ports", "--zmq-replay-ports")}
    more = [text for pair in ports.items() for text in pair]
    standard = ("--model-path", model, "--disaggregation-mode", "prefill", *more)
    w = Workers(folder, *standard, *arguments, plane="tcp", **{**NO_CHOICE, **environment})
    w.status = w.status.replace("127.0.0.1", host)
    return w


def ready(w: Workers) -> dict[int, str]:
    until(lambda: get(w.status + "/health")[0] == 200 if "status server" in w.log else None)
    return listening(w)


def told(w: Workers) -> set[str]:
    """The hosts that records name."""
    hosts = {r["transport"]["tcp"].rpartition(":")[0] for r in records(w.root)}
    for r in records(w.root, "event_channels"):
        hosts.add(r["transport"]["config"]["endpoint"].removeprefix("tcp://").rpartition(":")[0])
    (card,) = records(w.root, "mdc")
    return hosts | {card["card_json"]["runtime_config"]["disaggregated_endpoint"]["bootstrap_host"]}


def test_discovery_on_one_host_keeps_to_loopback(tmp_path: Path, model: str) -> None:
    with prefill_workers(tmp_path, model) as w:
        found = ready(w)
        status = int(w.status.rpartition(":")[2])
        # request plane, three topics, KV events for 1.6, events, replays, hand-offs
        assert found.pop(status) == EVERYWHERE
        assert sorted(found.values()) == ["127.0.0.1"] * 8
        assert told(w) == {"127.0.0.1"}


def test_an_option_for_all(tmp_path: Path, model: str) -> None:
    with prefill_workers(tmp_path, model, "--listen-host", "127.0.0.2", host="127.0.0.2") as w:
        assert sorted(ready(w).values()) == ["127.0.0.2"] * 9
        assert told(w) == {"127.0.0.2"}


def test_a_variable_for_all(tmp_path: Path, model: str) -> None:
    with prefill_workers(tmp_path, model, DYN_LISTEN_HOST="0.0.0.0", DYN_TCP_RPC_HOST="192.0.2.7") as w:
        assert sorted(ready(w).values()) == [EVERYWHERE] * 9
        assert "192.0.2.7" in told(w)
        assert not told(w) & {"127.0.0.1", "0.0.0.0"}


def test_an_address_of_another_machine(tmp_path: Path, model: str) -> None:
    problem = 'listen_host: got "192.0.2.7", want an address of this machine'
    bad_input(tmp_path, ["--model-path", model, "--listen-host", "192.0.2.7"], problem)
