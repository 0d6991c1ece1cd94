"""How far many runs have come: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tqdm import tqdm

from pamt_lightning.studies.expand import Run

_SECONDS_BETWEEN_LINES = 60.0


class Progress:
    """Tells people how many runs are done and how long the rest will take.

    Args:
        total: All runs.
        done: Those that are done already.
        jobs: How many processes are at them.
        quiet: Tell nothing.
    """

    def __init__(self, total: int, done: int, jobs: int, quiet: bool = False) -> None:
        self.total, self.done = total, done
        self._lines = not quiet and not sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            initial=done,
            desc="runs",
            dynamic_ncols=True,
            disable=quiet or self._lines,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
        )
        if done < total:
            processes = "1 process" if jobs == 1 else f"{jobs} processes"
            self._say(f"{processes} for the rest")
        self._said_at = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def step(self, text: str = "") -> None:
        """One more is done; ``text`` says what else there is to say."""
        self.done += 1
        if text:
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(1)
        now = time.monotonic()
        if self.done == self.total or now - self._said_at >= _SECONDS_BETWEEN_LINES:
            self._said_at = now
            self._say(text if self.done < self.total else "")

    def _say(self, text: str) -> None:
        if self._lines:
            rest = f", {text}" if text else ""
            print(f"runs: {self.done:,} of {self.total:,}{rest}", file=sys.stderr, flush=True)


class Clock:
    """How long the rest will take, from finished runs of the same cell, data set, or any.

    What counts is how long a process was at a run, of which training is a part.
    """

    def __init__(
        self, wanted: Mapping[str, Run], rows: Mapping[str, Mapping[str, Any]], jobs: int
    ) -> None:
        self.jobs = jobs
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for run_id, run in wanted.items():
            row = rows.get(run_id, {})
            if "wall_seconds" in row and "error" not in row:
                self.took(run, row["wall_seconds"])

    def took(self, run: Run, seconds: float) -> None:
        """A run has taken so long."""
        for key in self._keys(run):
            self._seconds.setdefault(key, []).append(seconds)

    def text(self, queued: Sequence[Run], busy: Iterable[Run], failed: int) -> str:
        """The time left, and how many have failed, as far as there is something to say."""
        parts = []
        if self._seconds:
            ahead = sum(map(self._expected, queued)) + sum(map(self._expected, busy)) / 2
            parts.append(f"left {tqdm.format_interval(int(ahead / self.jobs))}")
        if failed:
            parts.append(f"{failed} failed")
        return ", ".join(parts)

    def _expected(self, run: Run) -> float:
        for key in self._keys(run):
            if known := self._seconds.get(key):
                return sum(known) / len(known)
        return 0.0

    @staticmethod
    def _keys(run: Run) -> list[tuple[str, ...]]:
        cell = run.cell
        return [(cell.dataset, cell.method), (cell.dataset,), ()]
