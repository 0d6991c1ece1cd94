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

    def run(self, runs: Sequence[Run], *, retry: bool = False) -> Tally:
        """Compute all runs that are not finished.

        Args:
            runs: What is wanted; a run that is listed twice is computed once.
            retry: Also runs that failed before.

        Raises:
            InputError: No run can be started, or data or source changed meanwhile.
        """
        rows = self.results.rows()
        wanted = {run.run_id: run for run in runs}
        tally, missing = Tally(), []
        for run in wanted.values():
            row = rows.get(run.run_id)
            if row is None or (retry and row.get("error") is not None):
                missing.append(run)
            elif row.get("error") is not None:
                tally.failed[run.run_id] = str(row["error"])
        with Progress(wanted.values(), rows, missing, self.executor.slots, self.quiet) as progress:
            _Batch(self, missing, rows, retry, tally, progress).compute()
        return tally


class _Batch:
    """One call of `Runner.run`."""

    def __init__(
        self,
        runner: Runner,
        missing: Sequence[Run],
        before: _Rows,
        retry: bool,
        tally: Tally,
        progress: Progress,
    ) -> None:
        self.results, self.executor = runner.results, runner.executor
        self.before, self.retry = before, retry
        self.tally, self.progress = tally, progress
        self.queue = deque(missing)
        self.busy: dict[str, tuple[Run, Claim]] = {}
        self.elsewhere: list[Run] = []  # runs of another command
        self.stopped: set[str] = set()

    def compute(self) -> None:
        try:
            while self.queue or self.busy or self.elsewhere:
                while self.queue and len(self.busy) < self.executor.slots:
                    self._submit(self.queue.popleft())
                if self.busy:
                    # Not for ever: Windows notices Ctrl-C only between two waits.
                    for finished in self.executor.wait(1.0):
                        self._record(finished)
                elif not self.queue:
                    time.sleep(_POLL_SECONDS)
                    self._look_elsewhere()
        finally:
            for _, claim in self.busy.values():
                claim.release()

    def _submit(self, run: Run) -> None:
        claim = self.results.claim(run.run_id, retry=self.retry)
        if claim is None:
            self.elsewhere.append(run)
            return
        self.busy[run.run_id] = run, claim
        self.executor.submit(Job(run.run_id, run.describe()))

    def _record(self, finished: Finished) -> None:
        run, claim = self.busy.pop(finished.job_id)
        try:
            answer = finished.answer
            if "outdated" in answer:
                raise InputError(f"{answer['outdated']}: start it again.")
            if finished.stopped and run.run_id not in self.stopped:
                self.stopped.add(run.run_id)  # repeated once
                self.queue.appendleft(run)
                return
            if not finished.stopped:
                self.results.add({**run.describe(), **answer})
        finally:
            claim.release()
        if "error" in answer:
            self.tally.failed[run.run_id] = str(answer["error"])
        else:
            self.tally.done += 1
            self.progress.took(run, answer.get("wall_seconds"))
        under_way = [each for each, _ in self.busy.values()]
        self.progress.step(self.queue, under_way, len(self.tally.failed))

    def _look_elsewhere(self) -> None:
        """Take over runs that another command left, and count those that it finished."""
        rows = self.results.rows()
        runs, self.elsewhere = self.elsewhere, []
        for run in runs:
            row = rows.get(run.run_id)
            if self.results.is_claimed(run.run_id):
                self.elsewhere.append(run)
            elif row is None or row == self.before.get(run.run_id):
                self.queue.append(run)  # the other command died and recorded nothing
            else:
                if row.get("error") is not None:
                    self.tally.failed[run.run_id] = str(row["error"])
                self.progress.step(self.queue, [], len(self.tally.failed))
