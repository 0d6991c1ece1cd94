"""The progress of many runs: a bar in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 60.0


class Progress:
    """Reports how many runs are done, how many failed, and the time left.

    The time left is the mean time per run so far for each run that is missing. Studies run split by
    split, so the rest is as slow as what was done.

    Args:
        total: Number of runs.
        done: How many are done.
        jobs: How many are computed at a time.
        quiet: Report nothing.
    """

    def __init__(self, total: int, done: int, jobs: int, quiet: bool = False) -> None:
        self._total, self._done, self._computed = total, done, 0
        self._prints_lines = not quiet and not sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            initial=done,
            desc="runs",
            dynamic_ncols=True,
            disable=quiet or self._prints_lines,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
        )
        if done < total:
            self._print(f", {jobs} at a time")
        self._started = self._printed = time.monotonic()

    def close(self) -> None:
        """End the bar."""
        self._bar.close()

    def step(self, failed: int) -> None:
        """One more run is done; so many have failed."""
        self._done, self._computed = self._done + 1, self._computed + 1
        now, missing = time.monotonic(), self._total - self._done
        left = tqdm.format_interval(int((now - self._started) / self._computed * missing))
        text = f"left {left}{f', {failed} failed' if failed else ''}"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(1)
        if not missing or now - self._printed >= _SECONDS_BETWEEN_LINES:
            self._printed = now
            self._print(f", {text}" if missing else "")

    def _print(self, text: str) -> None:
        if self._prints_lines:
            print(f"runs: {self._done:,} of {self._total:,}{text}", file=sys.stderr, flush=True)
