import io
import sys
from typing import Any

import pytest

from pamt_lightning.studies.progress import Clock, Progress
from tests.studies.small_runs import made_up_run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have gone by."""
    now = [1000.0]
    monkeypatch.setattr("pamt_lightning.studies.progress.time.monotonic", lambda: now[0])
    return now


def test_without_a_terminal_there_is_a_line_a_minute(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(total=1200, done=2, jobs=2) as progress:
        for seconds in (30, 29, 1, 59, 1):
            clock[0] += seconds
            progress.step("left 10:00")
    assert capsys.readouterr().err.splitlines() == [
        "runs: 2 of 1,200, 2 processes for the rest",
        "runs: 5 of 1,200, left 10:00",
        "runs: 7 of 1,200, left 10:00",
    ]


@pytest.mark.usefixtures("clock")
def test_the_last_run_has_its_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(total=2, done=1, jobs=1) as progress:
        progress.step("left 00:00")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["runs: 1 of 2, 1 process for the rest", "runs: 2 of 2"]


@pytest.mark.parametrize(("done", "quiet"), [(2, False), (0, True)])
def test_where_there_is_nothing_to_do_or_tell_nothing_is_said(
    done: int, quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(total=2, done=done, jobs=1, quiet=quiet) as progress:
        if not done:
            progress.step()
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(total=4, done=1, jobs=1) as progress:
        progress.step("left 00:07")
        progress.step("left 00:05")
    shown = terminal.getvalue()
    assert "75%" in shown
    assert "3/4" in shown
    assert "for the rest" not in shown


def test_what_is_left_is_guessed_from_runs_alike() -> None:
    a, b = made_up_run("a"), made_up_run("b")
    training: dict[str, dict[str, Any]] = {
        "a": {"metrics": {"seconds": 9.0}},
        "b": {"error": "x", "wall_seconds": 9.0},
    }
    clock = Clock({"a": a, "b": b}, training, jobs=2)
    assert clock.text([b], [], 0) == ""  # of neither is known how long it would take
    rows = {"a": {"metrics": {"seconds": 9.0}, "wall_seconds": 30.0}}
    clock = Clock({"a": a, "b": b}, rows, jobs=2)
    assert clock.text([b, b, b, b], [], 0) == "left 01:00"
    clock.took(b, 90.0)
    assert clock.text([b], [b], 0) == "left 00:45"
    assert clock.text([], [], 1) == "left 00:00, 1 failed"
