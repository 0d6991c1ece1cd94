"""Runs spread over processes: one progress bar, failures kept apart, Ctrl-C clean."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from pamt_lightning.errors import InputError
from pamt_lightning.experiments.expand import Run
from pamt_lightning.experiments.store import Store

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_WORKER = ("-m", "pamt_lightning.experiments.worker")
_LOOK_AGAIN = 2.0  # seconds between looks at runs that another process is at


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
    if jobs < 1 or jobs * threads > cores:
        raise InputError(
            f"`jobs` × `threads` must lie in 1 to {cores} (the cores), got {jobs} × {threads}: "
            "more would only wait for each other."
        )
    return jobs


@dataclass
class Tally:
    """What became of the runs that were asked for."""

    done: int = 0
    known: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class Runner:
    """Processes that do runs and put them into a store.

    Args:
        store: Where results go.
        jobs: Number of processes.
        threads: Threads of each.
        quiet: No progress bar.
    """

    def __init__(self, store: Store, jobs: int, threads: int = 1, quiet: bool = False) -> None:
        self.store = store
        self.jobs, self.threads = jobs, threads
        self.quiet = quiet
        self._workers: list[_Worker] = []
        self._answers: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def run(
        self, runs: Sequence[Run], *, retry: bool = False, watch: Callable[[], None] | None = None
    ) -> Tally:
        """Do all runs that are not done yet.

        Args:
            runs: What is wanted; a run that stands there twice is done once.
            retry: Also those that failed before.
            watch: Called after each run.
        """
        rows = self.store.rows()
        tally = Tally()
        wanted = {run.run_id: run for run in runs}
        waiting = []
        for run in wanted.values():
            row = rows.get(run.run_id)
            if row is None or (retry and row.get("error") is not None):
                waiting.append(run)
            elif row.get("error") is not None:
                tally.failed[run.run_id] = str(row["error"])
            else:
                tally.known += 1
        clock = _Clock(wanted, rows, self.jobs)
        with tqdm(
            total=len(wanted),
            initial=len(wanted) - len(waiting),
            desc="runs",
            unit="run",
            dynamic_ncols=True,
            disable=True if self.quiet else None,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]",
        ) as bar:
            self._work(waiting, retry, tally, clock, bar, watch)
        return tally

    def _work(
        self,
        waiting: list[Run],
        retry: bool,
        tally: Tally,
        clock: _Clock,
        bar: tqdm[Any],
        watch: Callable[[], None] | None,
    ) -> None:
        queued, elsewhere = list(reversed(waiting)), list[Run]()
        busy: dict[_Worker, Run] = {}
        while queued or busy or elsewhere:
            if not queued and not busy:
                # Another process is at these; if it dies, they are ours.
                time.sleep(_LOOK_AGAIN)
                queued, elsewhere = self._left(elsewhere, tally, bar)
                continue
            while queued and len(busy) < self.jobs:
                run = queued.pop()
                worker = self._idle(busy)
                worker.give(run, retry)
                busy[worker] = run
            worker, answer = self._answers.get()
            if worker not in busy:  # the process died between two runs
                continue
            run = busy.pop(worker)
            if answer is None:  # the process died under the run
                self._workers.remove(worker)
                answer = self._died(run, worker.exit_code())
                worker.stop()
            if answer["status"] == "elsewhere":
                elsewhere.append(run)
                continue
            if answer["status"] == "failed":
                tally.failed[run.run_id] = str(answer["error"])
            else:
                tally.done += 1
            clock.took(run, float(answer.get("seconds", 0.0)))
            bar.set_postfix_str(clock.text(queued, busy.values(), tally), refresh=False)
            bar.update(1)
            if watch is not None:
                watch()

    def _left(self, runs: list[Run], tally: Tally, bar: tqdm[Any]) -> tuple[list[Run], list[Run]]:
        """Of runs that others were at: those that nobody is at any more, and the rest."""
        rows = self.store.rows()
        ours, theirs = [], []
        for run in runs:
            if self.store.is_claimed(run.run_id):
                theirs.append(run)
            elif (row := rows.get(run.run_id)) is not None:
                tally.known += 1
                if row.get("error") is not None:
                    tally.failed[run.run_id] = str(row["error"])
                bar.update(1)
            else:
                ours.append(run)
        return ours, theirs

    def _idle(self, busy: dict[_Worker, Run]) -> _Worker:
        for worker in list(self._workers):
            if worker not in busy:
                if worker.is_alive():
                    return worker
                self._workers.remove(worker)
                worker.stop()
        worker = _Worker(self.store, self.threads, self._answers)
        self._workers.append(worker)
        return worker

    def _died(self, run: Run, code: int) -> dict[str, Any]:
        short = ", which often means that memory was short" if code == -signal.SIGKILL else ""
        how = f"signal {-code}" if code < 0 else f"code {code}"
        error = f"its process ended with {how}{short}."
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


class _Worker:
    """A process that does runs; `worker.main` is its other end."""

    def __init__(self, store: Store, threads: int, answers: queue.Queue[Any]) -> None:
        command = [sys.executable, *_WORKER, str(store.folder)]
        env = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
            start_new_session=True,  # Ctrl-C is the parent's to answer
        )
        self._listener = threading.Thread(target=self._listen, args=(answers,), daemon=True)
        self._listener.start()

    def give(self, run: Run, retry: bool) -> None:
        assert self._process.stdin is not None
        job = json.dumps(describe(run) | {"config": dict(run.config), "retry": retry})
        with suppress(BrokenPipeError):  # it died; the end of its output says so
            print(job, file=self._process.stdin, flush=True)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def exit_code(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it had no time to read
                    pipe.close()

    def _listen(self, answers: queue.Queue[Any]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answers.put((self, json.loads(line)))
        answers.put((self, None))


class _Clock:
    """How long the rest will take, from runs of the same cell, data set, or any."""

    def __init__(self, wanted: dict[str, Run], rows: dict[str, dict[str, Any]], jobs: int) -> None:
        self.jobs = jobs
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for run_id, run in wanted.items():
            seconds = rows.get(run_id, {}).get("metrics", {}).get("seconds")
            if seconds is not None:
                self.took(run, seconds)

    def took(self, run: Run, seconds: float) -> None:
        for key in self._keys(run):
            self._seconds.setdefault(key, []).append(seconds)

    def text(self, queued: Sequence[Run], busy: Any, tally: Tally) -> str:
        ahead = sum(map(self._expected, queued)) + sum(map(self._expected, busy)) / 2
        left = int(ahead / self.jobs)
        failed = f", {len(tally.failed)} failed" if tally.failed else ""
        return f"left {tqdm.format_interval(left)}{failed}"

    def _expected(self, run: Run) -> float:
        for key in self._keys(run):
            if known := self._seconds.get(key):
                return sum(known) / len(known)
        return 0.0

    @staticmethod
    def _keys(run: Run) -> list[tuple[str, ...]]:
        cell = run.cell
        return [(cell.dataset, cell.method), (cell.dataset,), ()]
