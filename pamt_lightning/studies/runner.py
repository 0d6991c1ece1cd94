"""Computes the runs that are missing, records them, and reports the progress."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pamt_lightning.errors import InputError
from pamt_lightning.studies.executor import Executor, Finished, Job
from pamt_lightning.studies.progress import Progress
from pamt_lightning.studies.results import Claim, Results
from pamt_lightning.studies.runs import Run

_POLL_SECONDS = 2.0  # between looks at runs that another command computes
_Rows = Mapping[str, Mapping[str, Any]]


def num_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def check_jobs(jobs: int | None, threads: int) -> int:
    """The number of processes: by default as many as the cores allow, and never more."""
    cores = num_cores()
    if threads < 1 or threads > cores:
        raise InputError(f"`threads` must lie in 1 to {cores} (the cores), got {threads}.")
    if jobs is None:
        return max(1, cores // threads)
    if jobs < 1:
        raise InputError(f"`jobs` must be 1 or more, got {jobs}.")
    if jobs * threads > cores:
        raise InputError(
            f"`jobs` × `threads` must lie in 1 to {cores} (the cores), got {jobs} × {threads}: "
            "more would only wait for each other."
        )
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


@dataclass
class Tally:
    """What became of the runs that were asked for.

    Attributes:
        done: How many were computed now.
        failed: Reasons of failed runs by id, including those that failed before.
    """

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class Runner:
    """Computes runs with an executor and writes them to results; the only writer of its command.

    Args:
        results: Where results go.
        executor: What computes them.
        quiet: Report no progress.
    """

    def __init__(self, results: Results, executor: Executor, quiet: bool = False) -> None:
        self.results, self.executor, self.quiet = results, executor, quiet
        self._queue: deque[Run] = deque()
        self._busy: dict[str, tuple[Run, Claim]] = {}
        self._elsewhere: list[Run] = []  # runs that another command computes
        self._stopped: set[str] = set()
        self._tally = Tally()

    def run(self, runs: Sequence[Run], *, retry: bool = False) -> Tally:
        """Compute all runs that are not finished.

        Args:
            runs: What is wanted; a run that is listed twice is computed once.
            retry: Also runs that failed before.

        Raises:
            InputError: No run can be started, or data or source changed meanwhile.
        """
        before = self.results.rows()
        wanted = {run.run_id: run for run in runs}
        self._tally = tally = Tally()
        for run in wanted.values():
            row = before.get(run.run_id)
            if row is None or (retry and row.get("error") is not None):
                self._queue.append(run)
            elif row.get("error") is not None:
                tally.failed[run.run_id] = str(row["error"])
        slots, missing = self.executor.slots, list(self._queue)
        with Progress(wanted.values(), before, missing, slots, self.quiet) as progress:
            try:
                while self._queue or self._busy or self._elsewhere:
                    while self._queue and len(self._busy) < slots:
                        self._submit(self._queue.popleft(), retry)
                    if self._busy:
                        # Not for ever: Windows notices Ctrl-C only between two waits.
                        for finished in self.executor.wait(1.0):
                            self._record(finished, progress)
                    elif not self._queue:
                        time.sleep(_POLL_SECONDS)
                        self._look_elsewhere(before, progress)
            finally:
                for _, claim in self._busy.values():
                    claim.release()
                for left in (self._queue, self._busy, self._elsewhere):
                    left.clear()
        return tally

    def _submit(self, run: Run, retry: bool) -> None:
        claim = self.results.claim(run.run_id, retry=retry)
        if claim is None:
            self._elsewhere.append(run)
            return
        self._busy[run.run_id] = run, claim
        self.executor.submit(Job(run.run_id, run.describe()))

    def _record(self, finished: Finished, progress: Progress) -> None:
        run, claim = self._busy.pop(finished.job_id)
        answer = finished.answer
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
            claim.release()
        if "error" in answer:
            self._tally.failed[run.run_id] = str(answer["error"])
        else:
            self._tally.done += 1
            progress.took(run, answer.get("wall_seconds"))
        under_way = [each for each, _ in self._busy.values()]
        progress.step(self._queue, under_way, len(self._tally.failed))

    def _look_elsewhere(self, before: _Rows, progress: Progress) -> None:
        """Take over runs that another command left, and count those that it finished."""
        rows = self.results.rows()
        runs, self._elsewhere = self._elsewhere, []
        for run in runs:
            row = rows.get(run.run_id)
            if self.results.is_claimed(run.run_id):
                self._elsewhere.append(run)
            elif row is None or row == before.get(run.run_id):
                self._queue.append(run)  # the other command died and recorded nothing
            else:
                if row.get("error") is not None:
                    self._tally.failed[run.run_id] = str(row["error"])
                progress.step(self._queue, [], len(self._tally.failed))
