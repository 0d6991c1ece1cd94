"""Runs spread over processes: one progress bar, failures kept apart, Ctrl-C clean."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pamt_lightning.errors import InputError
from pamt_lightning.studies.expand import Run
from pamt_lightning.studies.progress import Clock, Progress
from pamt_lightning.studies.store import Store
from pamt_lightning.studies.worker import STOPPED, Worker

_LOOK_AGAIN = 2.0  # seconds between looks at runs that another process is at
# Numbers, as Windows lacks some names: SIGKILL, and SIGHUP, SIGINT, SIGTERM.
_KILLED = -9
_TOLD_TO_STOP = (-1, -2, -15, STOPPED)
_Rows = Mapping[str, Mapping[str, Any]]


def num_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def check_jobs(jobs: int | None, threads: int) -> int:
    """How many processes there are to be: all cores by default, and never more than fit."""
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


@dataclass
class Tally:
    """What became of the runs that were asked for.

    Attributes:
        done: How many were done here and now.
        failed: Why runs failed, by their ids; also those that failed before.
    """

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class Runner:
    """Processes that do runs and put them into a store; meanwhile SIGTERM is like Ctrl-C.

    Args:
        store: Where results go.
        jobs: Number of processes.
        threads: Threads of each.
        quiet: Tell nothing of the progress.
    """

    def __init__(self, store: Store, jobs: int, threads: int = 1, quiet: bool = False) -> None:
        self.store = store
        self.jobs, self.threads = jobs, threads
        self.quiet = quiet
        self._workers: list[Worker] = []
        self._answers: queue.Queue[tuple[Worker, dict[str, Any] | None]] = queue.Queue()
        self._answers_sigterm = False

    def __enter__(self) -> Runner:
        on_main = threading.current_thread() is threading.main_thread()  # else Python refuses
        if on_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            self._answers_sigterm = True
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()
        if self._answers_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._answers_sigterm = False

    def run(self, runs: Sequence[Run], *, retry: bool = False) -> Tally:
        """Do all runs that are not done yet.

        Args:
            runs: What is wanted; a run that stands there twice is done once.
            retry: Also those that failed before.

        Raises:
            InputError: No process can be started, or the code has changed since this one was.
        """
        rows, tally = self.store.rows(), Tally()
        wanted = {run.run_id: run for run in runs}
        waiting = []
        for run in wanted.values():
            row = rows.get(run.run_id)
            if row is None or (retry and row.get("error") is not None):
                waiting.append(run)
            elif row.get("error") is not None:
                tally.failed[run.run_id] = str(row["error"])
        clock = Clock(wanted, rows, self.jobs)
        done = len(wanted) - len(waiting)
        with Progress(len(wanted), done, self.jobs, self.quiet) as progress:
            self._work(waiting, rows, retry, tally, clock, progress)
        return tally

    def _work(
        self,
        waiting: list[Run],
        before: _Rows,
        retry: bool,
        tally: Tally,
        clock: Clock,
        progress: Progress,
    ) -> None:
        queued, elsewhere = list(reversed(waiting)), list[Run]()
        busy: dict[Worker, Run] = {}
        stopped: set[str] = set()
        while queued or busy or elsewhere:
            if not queued and not busy:
                # Another process is at these; if it dies, they are ours.
                time.sleep(_LOOK_AGAIN)
                queued, elsewhere = self._left(elsewhere, before, tally, progress)
                continue
            while queued and len(busy) < self.jobs:
                run = queued.pop()
                worker = self._idle(busy)
                worker.give(
                    describe(run)
                    | {"config": dict(run.config), "retry": retry}
                    | {"split_options": run.split_options}
                )
                busy[worker] = run
            worker, answer = self._next_answer()
            if worker not in busy:  # the process died between two runs
                continue
            run = busy.pop(worker)
            if answer is None:
                answer = self._died(run, worker)
            status = answer["status"]
            if status == "stale":
                raise InputError(answer["error"])
            if status == "elsewhere":
                elsewhere.append(run)
                continue
            if status == "stopped" and run.run_id not in stopped:
                stopped.add(run.run_id)  # once more, but not for ever
                queued.append(run)
                continue
            if status == "done":
                tally.done += 1
                clock.took(run, answer["wall_seconds"])
            else:
                tally.failed[run.run_id] = str(answer["error"])
            progress.step(clock.text(queued, busy.values(), len(tally.failed)))

    def _next_answer(self) -> tuple[Worker, dict[str, Any] | None]:
        while True:  # Windows hears Ctrl-C only between two waits
            with suppress(queue.Empty):
                return self._answers.get(timeout=1.0)

    def _left(
        self, runs: list[Run], before: _Rows, tally: Tally, progress: Progress
    ) -> tuple[list[Run], list[Run]]:
        """Of runs that others were at: those that nobody is at any more, and the rest."""
        rows = self.store.rows()
        ours, theirs = [], []
        for run in runs:
            row = rows.get(run.run_id)
            if self.store.is_claimed(run.run_id):
                theirs.append(run)
            elif row is None or row == before.get(run.run_id):
                ours.append(run)  # the other process died and has left nothing new
            else:
                if row.get("error") is not None:
                    tally.failed[run.run_id] = str(row["error"])
                progress.step()
        return ours, theirs

    def _idle(self, busy: dict[Worker, Run]) -> Worker:
        for worker in list(self._workers):
            if worker not in busy:
                if worker.is_alive():
                    return worker
                self._workers.remove(worker)
                worker.stop()
        worker = Worker(self.store.folder, self.threads, self._answers)
        self._workers.append(worker)
        return worker

    def _died(self, run: Run, worker: Worker) -> dict[str, Any]:
        """The answer for a worker that can give none; the run has failed if it may be its fault."""
        self._workers.remove(worker)
        code, words = worker.ended()
        how = f"signal {-code}" if code < 0 else f"code {code}"
        if worker.babbles:
            code, how = 0, "an answer that cannot be read"
        if code in _TOLD_TO_STOP:
            error = f"its process was stopped twice ({how}); it is not done and not recorded."
            return {"status": "stopped", "error": error}
        short = ", which often means that memory was short" if code == _KILLED else ""
        error = f"its process ended with {how}{short}{f': {words}' if words else '.'}"
        if not worker.is_ready:  # so would the next one, and each would cost a run
            raise InputError(f"no run can be started: {error.replace('its', 'a', 1)}")
        with self.store.claim(run.run_id, retry=True) as ours:
            if not ours:  # another process has taken it over
                return {"status": "elsewhere"}
            self.store.add(describe(run) | {"config": "", "error": error})
        return {"status": "failed", "error": error}


def describe(run: Run) -> dict[str, Any]:
    """What a row says of its run."""
    cell = run.cell
    return {
        "id": run.run_id,
        "dataset": cell.dataset,
        "method": cell.method,
        "option": cell.option,
        "value": cell.value,
        "split_seed": run.split_seed,
        "init_seed": run.init_seed,
        "args": list(run.args),
    }
