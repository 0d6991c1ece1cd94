from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from pamt_lightning.studies.progress import Progress
from pamt_lightning.studies.runs import Run
from tests.studies.small_runs import made_up_run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def some_runs(count: int, dataset: str = "nowhere") -> list[Run]:
    return [made_up_run(f"{dataset}-{number}", dataset=dataset) for number in range(count)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have gone by."""
    now = [1000.0]
    monkeypatch.setattr("pamt_lightning.studies.progress.time.monotonic", lambda: now[0])
    return now


def test_without_a_terminal_there_is_a_line_a_minute_and_one_at_the_end(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = some_runs(1200)
    with Progress(runs, {}, runs[1195:], jobs=2) as progress:
        for seconds in (30, 29, 1, 59, 0):
            clock[0] += seconds
            progress.step([], [], failed=1)
    assert capsys.readouterr().err.splitlines() == [
        "runs: 1,195 of 1,200, 2 at a time",
        "runs: 1,198 of 1,200, 1 failed",
        "runs: 1,200 of 1,200",
    ]


@pytest.mark.parametrize(("missing", "quiet"), [(0, False), (1, True)])
def test_nothing_is_printed_if_there_is_nothing_to_do_or_it_is_quiet(
    missing: int, quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = some_runs(2)
    with Progress(runs, {}, runs[:missing], jobs=1, quiet=quiet) as progress:
        if missing:
            progress.step([], [], 0)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    runs = some_runs(4)
    with Progress(runs, {}, runs[1:], jobs=1) as progress:
        progress.step([], [], 0)
        progress.step([], [], 2)
    shown = terminal.getvalue()
    assert all(fact in shown for fact in ("75%", "3/4", "2 failed")), shown
    assert "at a time" not in shown


def test_the_time_left_is_estimated_from_similar_runs(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = some_runs(4, "here"), some_runs(2, "there")
    rows: dict[str, dict[str, Any]] = {
        "here-0": {"metrics": {"seconds": 1.0}, "wall_seconds": 30.0},
        "here-1": {"error": "x", "wall_seconds": 900.0},
        "there-0": {"metrics": {}},
    }
    with Progress([*here, *there], rows, [*here[2:], there[1]], jobs=2) as progress:
        clock[0] += 60
        progress.step([here[3], there[1]], [], 0)  # of `there` nothing is known: 30 s each
        progress.took(there[1], 90.0)
        clock[0] += 60
        progress.step([there[1], there[1]], [here[3]], 1)  # 2 × 90 s and half of 30 s
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == ["runs: 4 of 6, left 00:30", "runs: 5 of 6, left 01:37, 1 failed"]


def test_the_time_left_is_unknown_before_a_run_has_finished(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = some_runs(2)
    with Progress(runs, {}, runs, jobs=1) as progress:
        clock[0] += 60
        progress.step(runs[1:], [], 0)
    assert capsys.readouterr().err.splitlines()[-1] == "runs: 1 of 2"
