"""Computes the runs that are missing, records them, and reports the progress."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from pamt_lightning.errors import InputError, require_in
from pamt_lightning.studies.executor import Executor, Finished
from pamt_lightning.studies.results import Results, Row
from pamt_lightning.studies.runs import Run

_POLL_SECONDS = 2.0  # between looks at runs that another command computes
_SECONDS_BETWEEN_LINES = 60.0


def num_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def check_jobs(jobs: int | None, threads: int) -> int:
    """The number of processes: by default as many as the cores allow, and never more."""
    cores = num_cores()
    require_in(f"[1, {cores}]", whole=True, note=" (the cores)", threads=threads)
    if jobs is None:
        return cores // threads
    note = f" ({cores} cores, {threads} for each job)"
    require_in(f"[1, {cores // threads}]", whole=True, note=note, jobs=jobs)
    return jobs


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, unless something else handles it."""
    on_main = threading.current_thread() is threading.main_thread()  # else Python refuses
    handles = on_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if handles:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if handles:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Lines:
    """Where a progress bar writes that nobody watches: a line for each of its states."""

    def write(self, text: str) -> None:
        if text.strip():
            print(text.strip(), file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Each line is flushed."""


def progress_bar(total: int, done: int, quiet: bool = False) -> tqdm[Any]:
    """How many runs are done and the time left: a bar in a terminal, a line a minute elsewhere.

    The time left is the mean time per run so far for each run that is missing. Studies run split by
    split, so the rest is as slow as what was done.
    """
    is_watched = sys.stderr.isatty()
    count = "{percentage:3.0f}%|{bar}| {n}/{total} [{elapsed}]" if is_watched else "{n} of {total}"
    return tqdm(
        total=total,
        initial=done,
        desc="runs",
        dynamic_ncols=True,
        disable=quiet or done == total,
        file=None if is_watched else _Lines(),
        mininterval=0.1 if is_watched else _SECONDS_BETWEEN_LINES,
        miniters=1,
        smoothing=0,
        bar_format="{desc}: " + count + ", left {remaining}{postfix}",
    )


class Runner:
    """Computes runs with an executor and writes them to results; the only writer of its command."""

    def __init__(self, results: Results, executor: Executor, quiet: bool = False) -> None:
        self.results, self.executor, self.quiet = results, executor, quiet
        self._queue: deque[Run] = deque()
        self._busy: dict[str, Run] = {}
        self._elsewhere: list[Run] = []  # runs that another command computes
        self._stopped: set[str] = set()
        self._failed: dict[str, str] = {}

    def run(self, runs: Sequence[Run], *, retry: bool = False) -> dict[str, str]:
        """Compute all runs that are not finished; with ``retry`` also those that failed before.

        Returns:
            Reasons of failed runs by id, including those that failed before.

        Raises:
            InputError: No run can be started, or data or source changed meanwhile.
        """
        before = self.results.rows()
        wanted = {run.run_id: run for run in runs}
        self._failed = {}
        for run in wanted.values():
            row = before.get(run.run_id)
            if row is None or (retry and row.get("error") is not None):
                self._queue.append(run)
            elif row.get("error") is not None:
                self._failed[run.run_id] = str(row["error"])
        slots, done = self.executor.slots, len(wanted) - len(self._queue)
        with progress_bar(len(wanted), done, self.quiet) as bar:
            try:
                while self._queue or self._busy or self._elsewhere:
                    while self._queue and len(self._busy) < slots:
                        self._submit(self._queue.popleft(), retry)
                    if self._busy:
                        # Not for ever: Windows notices Ctrl-C only between two waits.
                        for finished in self.executor.wait(1.0):
                            self._record(finished, bar)
                    elif self._elsewhere:
                        time.sleep(_POLL_SECONDS)
                        self._look_elsewhere(before, bar)
            finally:
                for run_id in self._busy:
                    self.results.release(run_id)
                for left in (self._queue, self._busy, self._elsewhere):
                    left.clear()
        return self._failed

    def _submit(self, run: Run, retry: bool) -> None:
        if self.results.claim(run.run_id, retry=retry):
            self._busy[run.run_id] = run
            self.executor.submit(run.run_id, run.describe())
        else:
            self._elsewhere.append(run)

    def _record(self, finished: Finished, bar: tqdm[Any]) -> None:
        run, answer = self._busy.pop(finished.job_id), finished.answer
        try:
            if "outdated" in answer:
                raise InputError(f"{answer['outdated']}: start it again.")
            if finished.stopped and run.run_id not in self._stopped:
                self._stopped.add(run.run_id)  # repeated once
                self._queue.appendleft(run)
                return
            if not finished.stopped:
                self.results.add({**run.describe(), **answer})
        finally:
            self.results.release(run.run_id)
        if "error" in answer:
            self._failed[run.run_id] = str(answer["error"])
        self._advance(bar)

    def _advance(self, bar: tqdm[Any]) -> None:
        if self._failed:
            bar.set_postfix_str(f"{len(self._failed)} failed", refresh=False)
        bar.update()

    def _look_elsewhere(self, before: Mapping[str, Row], bar: tqdm[Any]) -> None:
        """Count the runs that another command finished, and try to claim the others."""
        rows = self.results.rows()
        runs, self._elsewhere = self._elsewhere, []
        for run in runs:
            row = rows.get(run.run_id)
            if row is None or row == before.get(run.run_id):
                self._queue.append(run)
            else:
                if row.get("error") is not None:
                    self._failed[run.run_id] = str(row["error"])
                self._advance(bar)
