"""The progress of many runs: a bar in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any

from tqdm import tqdm

from pamt_lightning.studies.runs import Run

_SECONDS_BETWEEN_LINES = 60.0


class Progress:
    """Reports how many runs are done, and the time left.

    That is estimated from finished runs of the same data set and method, data set, or any; what
    counts is how long a process was busy with a run, of which training is a part.

    Args:
        runs: All runs.
        rows: Results by run id.
        missing: The runs that are not done.
        jobs: How many runs are computed at a time.
        quiet: Report nothing.
    """

    def __init__(
        self,
        runs: Collection[Run],
        rows: Mapping[str, Mapping[str, Any]],
        missing: Collection[Run],
        jobs: int,
        quiet: bool = False,
    ) -> None:
        self.total, self.done = len(runs), len(runs) - len(missing)
        self._jobs = jobs
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for run in runs:
            row = rows.get(run.run_id, {})
            if row.get("error") is None:
                self.took(run, row.get("wall_seconds"))
        self._prints_lines = not quiet and not sys.stderr.isatty()
        self._bar = tqdm(
            total=self.total,
            initial=self.done,
            desc="runs",
            dynamic_ncols=True,
            disable=quiet or self._prints_lines,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
        )
        if missing:
            self._print(f"{jobs} at a time")
        self._printed_at = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def took(self, run: Run, seconds: float | None) -> None:
        """A run took so many seconds, if that is known."""
        for key in _keys(run) if seconds is not None else ():
            self._seconds.setdefault(key, []).append(float(seconds or 0.0))

    def step(self, queue: Iterable[Run], under_way: Iterable[Run], failed: int) -> None:
        """One more run is done; these are left, and so many have failed."""
        self.done += 1
        text = self._time_left(queue, under_way)
        text += f"{', ' if text and failed else ''}{f'{failed} failed' if failed else ''}"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(1)
        now = time.monotonic()
        if self.done == self.total or now - self._printed_at >= _SECONDS_BETWEEN_LINES:
            self._printed_at = now
            self._print(text if self.done < self.total else "")

    def _time_left(self, queue: Iterable[Run], under_way: Iterable[Run]) -> str:
        if not self._seconds:
            return ""
        seconds = sum(map(self._expected, queue)) + sum(map(self._expected, under_way)) / 2
        return f"left {tqdm.format_interval(int(seconds / self._jobs))}"

    def _expected(self, run: Run) -> float:
        known = next(self._seconds[key] for key in _keys(run) if key in self._seconds)
        return sum(known) / len(known)

    def _print(self, text: str) -> None:
        if self._prints_lines:
            rest = f", {text}" if text else ""
            print(f"runs: {self.done:,} of {self.total:,}{rest}", file=sys.stderr, flush=True)


def _keys(run: Run) -> list[tuple[str, ...]]:
    return [(run.cell.dataset, run.cell.method), (run.cell.dataset,), ()]
