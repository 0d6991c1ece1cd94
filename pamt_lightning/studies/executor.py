"""Where jobs are computed: the interface of an executor, and worker processes on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from pamt_lightning.errors import InputError

Payload = Mapping[str, Any]  # plain values, so that every engine can send them
Work = Callable[[Payload], dict[str, Any]]
Prepare = Callable[[], None]

_STOPPED = 130  # exit code of a worker that was asked to stop during a job
# Numbers, as Windows lacks some names: SIGKILL; SIGHUP, SIGINT, SIGTERM.
_KILLED = -9
_STOP_CODES = (-1, -2, -15, _STOPPED)
# States of a worker; it sends them to its parent.
_READY: dict[str, Any] = {"state": "ready"}
_STARTED: dict[str, Any] = {"state": "started its job"}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Finished(NamedTuple):
    """The result of a job: what its work returned, or ``error`` with the reason of its failure.

    It was ``stopped``, which is no failure of the job, if the worker was stopped from outside or
    died before it started the job.
    """

    job_id: str
    answer: dict[str, Any]
    stopped: bool = False


class Executor(ABC):
    """Computes jobs elsewhere; its owner submits them and collects their results."""

    slots: int  # how many jobs may be submitted and not finished at a time

    @abstractmethod
    def submit(self, job_id: str, payload: Payload) -> None:
        """Start a job, which computes ``work(payload)``."""

    @abstractmethod
    def wait(self, timeout: float) -> list[Finished]:
        """Wait until a job finishes, at most ``timeout`` seconds; all that finished since then.

        Raises:
            InputError: No job can be computed at all.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop everything at once; unfinished jobs are lost."""


def perform(work: Work, payload: Payload) -> dict[str, Any]:
    """Compute a job here; an error becomes part of the answer."""
    try:
        return work(payload)
    except Exception as error:
        text = " ".join(str(error).split())
        if isinstance(error, InputError):
            return {"error": text}
        return {"error": f"{type(error).__name__}: {text}", "traceback": traceback.format_exc()}


class LocalExecutor(Executor):
    """Worker processes on this machine.

    A dead worker fails its own job only. (`concurrent.futures.ProcessPoolExecutor` cannot do that:
    when one of its workers dies, it gives up all pending jobs.) Workers print nothing, and end when
    this process does, even if it is killed.

    Args:
        work: The function that computes a job; importable by name.
        slots: Number of processes.
        threads: Threads of each.
        prepare: Called once in each process before its first job; importable by name.
    """

    def __init__(
        self, work: Work, slots: int, threads: int = 1, prepare: Prepare | None = None
    ) -> None:
        self.slots, self._threads = slots, threads
        self._work, self._prepare = work, prepare
        self._workers: list[_Worker] = []
        self._folder = Path(tempfile.mkdtemp(prefix="pamt-workers-"))

    def submit(self, job_id: str, payload: Payload) -> None:
        """Give a job to an idle worker, or to a new one."""
        worker = self._idle_worker()
        worker.job_id = job_id
        with suppress(OSError):  # it died this moment, which `wait` reports
            worker.connection.send(payload)

    def wait(self, timeout: float) -> list[Finished]:
        """Wait for a job; a worker that dies before its first one is an `InputError`."""
        busy = [worker for worker in self._workers if worker.job_id is not None]
        ready = wait([handle for worker in busy for handle in worker.handles()], timeout)
        found = [self._receive(w) for w in busy if any(handle in ready for handle in w.handles())]
        return [finished for finished in found if finished is not None]

    def close(self) -> None:
        """Kill all workers."""
        for worker in list(self._workers):
            self._remove(worker)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _receive(self, worker: _Worker) -> Finished | None:
        assert worker.job_id is not None
        job_id = worker.job_id
        try:
            # A worker that died may have sent its answer before.
            answer = worker.connection.recv() if worker.connection.poll() else None
        except (EOFError, OSError):
            answer = None
        if answer in (_READY, _STARTED):
            worker.state = answer
            return None
        if answer is not None:
            worker.state, worker.job_id = _READY, None
            return Finished(job_id, answer)
        worker.process.join()
        code, message = worker.process.exitcode or 0, worker.last_message()
        self._remove(worker)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        if code in _STOP_CODES or worker.state == _READY:
            error = f"its process was stopped ({how}); the run was not recorded."
            return Finished(job_id, {"error": error}, stopped=True)
        memory = ", which often means that memory was short" if code == _KILLED else ""
        error = f"process ended with {how}{memory}{f': {message}' if message else '.'}"
        if worker.state is None:  # neither could the next one, and each would cost a run
            raise InputError(f"no run can be started: a {error}")
        return Finished(job_id, {"error": f"its {error}"})

    def _idle_worker(self) -> _Worker:
        for worker in [each for each in self._workers if each.job_id is None]:
            if worker.process.is_alive():
                return worker
            self._remove(worker)
        self._workers.append(_Worker(self._work, self._prepare, self._threads, self._folder))
        return self._workers[-1]

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.kill()


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self, work: Work, prepare: Prepare | None, threads: int, folder: Path) -> None:
        # Not fork: torch and its threads do not survive it.
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        descriptor, self._errors = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        self.process = context.Process(
            target=_serve, args=(theirs, work, prepare, self._errors), daemon=True
        )
        self.job_id: str | None = None
        self.state: dict[str, Any] | None = None
        with _inherited(threads):
            self.process.start()
        theirs.close()

    def handles(self) -> tuple[Connection[Any, Any] | int, ...]:
        """What becomes ready when it sends something or ends."""
        return self.connection, self.process.sentinel

    def last_message(self) -> str:
        """The last line that its job wrote to standard error."""
        text = Path(self._errors).read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1].strip() if text else ""

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()


@contextmanager
def _inherited(threads: int) -> Iterator[None]:
    """Processes started inside use ``threads`` threads, and Ctrl-C does not reach them.

    Numerical libraries read the number of threads when they are loaded.
    """
    before = {name: os.environ.pop(name, None) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    has_masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if has_masks else ()
    try:
        yield
    finally:
        for name in _THREAD_VARIABLES:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})
        if has_masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(
    connection: Connection[Any, Any], work: Work, prepare: Prepare | None, errors: str
) -> None:
    """The worker process: compute jobs until the parent ends it or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_APPEND), 2)
    threading.Thread(target=_end_with_parent, args=(Path(errors).parent,), daemon=True).start()
    warnings.filterwarnings("ignore")
    if prepare is not None:
        prepare()
    connection.send(_READY)
    while True:
        payload = connection.recv()
        connection.send(_STARTED)
        os.ftruncate(2, 0)  # messages of earlier jobs explain nothing
        try:
            answer = perform(work, payload)
        except (KeyboardInterrupt, SystemExit):
            # Lightning makes a SystemExit of SIGTERM; what was stopped is not finished.
            os._exit(_STOPPED)
        sys.stderr.flush()
        connection.send(answer)


def _end_with_parent(folder: Path) -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
