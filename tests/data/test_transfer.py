from __future__ import annotations

import http.server
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.data import transfer
from pamt_lightning.data.published.download import locate
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.errors import DatasetNotFoundError
from tests.data.toy import FIRST, SECOND, names, toy, write

pytestmark = pytest.mark.usefixtures("no_settings_of_this_machine")


class Server(http.server.ThreadingHTTPServer):
    """Serves bytes by name, counts requests, and misbehaves on demand."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = dict(FIRST | SECOND)
        self.requests: list[str] = []
        self.announce: int | None = None  # content length to claim
        self.delay = 0.0  # before the body
        self.stall = threading.Event()  # set: half the body, then silence
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.server.requests.append(name)
        body = self.server.files.get(name)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.server.announce or len(body)))
        self.end_headers()
        time.sleep(self.server.delay)
        if self.server.stall.is_set():
            self.wfile.write(body[: len(body) // 2])
            while self.server.stall.is_set():
                time.sleep(0.01)
        else:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.stall.clear()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_real_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))


# ---- web ------------------------------------------------------------------------------------


def test_a_download_ends_in_the_cache_and_is_not_repeated(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    located = locate(toy(server.url), cache=tmp_path)
    assert located.source == "web"
    assert located.paths["toy.npz"].read_bytes() == FIRST["toy.npz"]
    assert names(tmp_path / "toy") == {"toy.npz"}
    again = locate(toy(server.url), cache=tmp_path)
    assert again.paths == located.paths
    assert server.requests == ["toy.npz"]
    assert capfd.readouterr() == ("", "")  # no terminal, no progress bar


def test_a_damaged_file_in_the_cache_is_fetched_anew(server: Server, tmp_path: Path) -> None:
    write(tmp_path / "toy", {"toy.npz": b"damaged"})
    located = locate(toy(server.url), cache=tmp_path)
    assert located.paths["toy.npz"].read_bytes() == FIRST["toy.npz"]


def test_only_missing_files_are_fetched(server: Server, tmp_path: Path) -> None:
    del server.files["toy.npz"]
    write(tmp_path / "toy", {"toy.a": SECOND["toy.a"]})
    assert set(locate(toy(server.url), cache=tmp_path).paths) == set(SECOND)
    assert server.requests == ["toy.npz", "toy.b"]


def test_the_second_variant_is_fetched_where_the_first_is_gone(
    server: Server, tmp_path: Path
) -> None:
    del server.files["toy.npz"]
    assert set(locate(toy(server.url), cache=tmp_path).paths) == set(SECOND)


def claim_more(server: Server) -> None:
    server.announce = len(FIRST["toy.npz"]) + 10
    server.files["toy.npz"] = FIRST["toy.npz"][:-10]


def cut_short(server: Server) -> None:
    server.announce = len(FIRST["toy.npz"])
    server.files["toy.npz"] = FIRST["toy.npz"][:-10]


def send_more(server: Server) -> None:
    server.files["toy.npz"] = FIRST["toy.npz"] + b"x"


def swap_content(server: Server) -> None:
    server.files["toy.npz"] = FIRST["toy.npz"][::-1]


@pytest.mark.parametrize(
    ("misbehave", "reason"),
    [
        (claim_more, "cut off"),
        (cut_short, "cut off"),
        (send_more, "longer than the 95,000 bytes expected"),
        (swap_content, "wrong SHA-256: expected"),
        (lambda server: server.files.clear(), "HTTP 404"),
    ],
)
def test_a_bad_download_leaves_nothing_behind(
    server: Server, tmp_path: Path, misbehave: Callable[[Server], None], reason: str
) -> None:
    misbehave(server)
    spec = replace(toy(server.url), variants=toy(server.url).variants[:1])
    with pytest.raises(DatasetNotFoundError, match=f"{server.url}/toy.npz: {reason}"):
        locate(spec, cache=tmp_path)
    assert names(tmp_path / "toy") == set()


def test_a_stalled_download_ends_after_the_time_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "SOCKET_SECONDS", 0.2)
    server.stall.set()
    spec = replace(toy(server.url), variants=toy(server.url).variants[:1])
    with pytest.raises(DatasetNotFoundError, match="cut off: timed out"):
        locate(spec, cache=tmp_path)
    assert names(tmp_path / "toy") == set()


def test_a_host_that_does_not_answer_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(request: urllib.request.Request, **_: Any) -> Any:
        asked.append(request.full_url)
        raise urllib.error.URLError("nobody there")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(toy("http://host"), cache=tmp_path)
    assert asked == ["http://host/toy.npz"]
    assert "http://host/toy.npz: nobody there" in str(caught.value)
    assert "http://host/toy.a: not tried, host did not answer" in str(caught.value)


def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[ssl.SSLContext] = []

    def note(_: Any, *, timeout: float, context: ssl.SSLContext) -> Any:
        contexts.append(context)
        assert timeout <= 15
        raise urllib.error.URLError("enough seen")

    monkeypatch.setattr(urllib.request, "urlopen", note)
    with pytest.raises(DatasetNotFoundError):
        locate(toy("https://host"), cache=tmp_path)
    assert contexts[0].verify_mode == ssl.CERT_REQUIRED
    assert contexts[0].check_hostname


def test_a_cache_that_cannot_be_written_is_said_plainly(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(DatasetNotFoundError, match=r"Not a directory\. Set PAMT_CACHE"):
        locate(toy(server.url), cache=tmp_path / "cache")
    assert server.requests == []


def test_a_full_disk_is_said_plainly(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DatasetNotFoundError, match=r"No space left on device\. Set PAMT_CACHE"):
        locate(toy(server.url), cache=tmp_path)
    assert names(tmp_path / "toy") == set()


def test_an_interrupt_leaves_no_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        locate(toy(server.url), cache=tmp_path)
    assert names(tmp_path / "toy") == set()


# ---- several processes ----------------------------------------------------------------------


def start(spec: DatasetSpec, cache: Path) -> subprocess.Popen[str]:
    code = (
        "from pamt_lightning.data.published.registry import *\n"
        "from pamt_lightning.data.published.download import locate\n"
        f"print(locate({spec!r}, cache={str(cache)!r}).source)"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_of_two_processes_only_one_downloads(server: Server, tmp_path: Path) -> None:
    server.delay = 1.0
    processes = [start(toy(server.url), tmp_path) for _ in range(2)]
    sources = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    assert sources == [f"cache {tmp_path / 'toy'}", "web"]
    assert server.requests == ["toy.npz"]


def test_a_killed_download_leaves_no_half_file_and_is_cleaned_up(
    server: Server, tmp_path: Path
) -> None:
    server.stall.set()
    process = start(toy(server.url), tmp_path)
    part = tmp_path / "toy" / ".part-toy.npz"
    deadline = time.monotonic() + 60
    while not part.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert names(tmp_path / "toy") == {part.name}
    (tmp_path / "toy" / ".part-wheel").mkdir()  # what a killed pip download would leave

    server.stall.clear()
    locate(toy(server.url), cache=tmp_path)
    assert names(tmp_path / "toy") == {"toy.npz"}
