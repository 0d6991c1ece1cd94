from __future__ import annotations

import io
import sys
from contextlib import closing

import pytest

from pamt_lightning.studies.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_a_minute_and_one_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr("pamt_lightning.studies.progress.time.monotonic", lambda: now[0])
    with closing(Progress(1200, 1195, jobs=2)) as progress:
        for seconds, failed in ((30, 0), (30, 0), (1, 0), (59, 1), (0, 1)):
            now[0] += seconds
            progress.step(failed)
    assert capsys.readouterr().err.splitlines() == [
        "runs: 1,195 of 1,200, 2 at a time",
        "runs: 1,197 of 1,200, left 01:30",  # 30 s for each of three
        "runs: 1,199 of 1,200, left 00:30, 1 failed",
        "runs: 1,200 of 1,200",
    ]


@pytest.mark.parametrize(("done", "quiet"), [(2, False), (1, True)])
def test_nothing_is_printed_if_there_is_nothing_to_do_or_it_is_quiet(
    done: int, quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Progress(2, done, jobs=1, quiet=quiet)) as progress:
        for _ in range(2 - done):
            progress.step(0)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with closing(Progress(4, 1, jobs=1)) as progress:
        progress.step(0)
        progress.step(2)
    shown = terminal.getvalue()
    assert all(fact in shown for fact in ("75%", "3/4", "left 00:00", "2 failed")), shown
    assert "at a time" not in shown
