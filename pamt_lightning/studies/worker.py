"""A process that does runs, one after the other, as its parent names them: both its ends.

Runs come in as JSON lines on standard input, answers go out as JSON lines on what was standard
output; whatever else a run prints there goes nowhere. If the parent dies, input ends and so do we.
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import IO, Any

from pamt_lightning.errors import InputError
from pamt_lightning.studies.fingerprint import code_version, same_apart_from, what_matters
from pamt_lightning.studies.store import Store

COMMAND = ("-m", "pamt_lightning.studies.worker")
STOPPED = 130  # exit code of a process that was told to stop in the middle of a run
_STALE = "the {what} changed since this study was started: start it again."
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_END = None


class Worker:
    """The parent's end of a process that does runs.

    Args:
        folder: Of the store.
        threads: How many it may use.
        answers: Gets each answer with this worker, and none for an answer when there are no more.

    Attributes:
        is_ready: Whether it has come as far as to do a run.
        babbles: Whether it was ended because it said what is no answer.
    """

    def __init__(self, folder: Path, threads: int, answers: queue.Queue[Any]) -> None:
        command = [sys.executable, *COMMAND, str(folder)]
        env = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}
        self.is_ready = self.babbles = False
        self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `stop` closes it
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            env=env,
            start_new_session=True,  # Ctrl-C is the parent's to answer
        )
        self._listener = threading.Thread(target=self._hear, args=(answers,), daemon=True)
        self._listener.start()

    def give(self, job: Mapping[str, Any]) -> None:
        """Have it do a run."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it died; the end of its output says so
            print(json.dumps(job), file=self._process.stdin, flush=True)

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ended(self) -> tuple[int, str]:
        """Wait for its end; returns its exit code, and the last line of what it complained of."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        self.stop()
        return code, next((line.strip() for line in reversed(lines) if line.strip()), "")

    def stop(self) -> None:
        """End it, whatever it is at."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._errors.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it had no time to read
                    pipe.close()

    def _hear(self, answers: queue.Queue[Any]) -> None:
        assert self._process.stdout is not None
        try:
            first = self._process.stdout.read(1)
            self.is_ready = first == " "
            if first not in (" ", ""):
                raise ValueError(first)
            for line in self._process.stdout:
                if not line.endswith("\n"):
                    break  # it died over it; its exit code says of what
                answer = json.loads(line)
                # What it printed on the way to an answer explains no later end. The worker's place
                # in the file is ours, so it goes on at the beginning.
                self._errors.seek(0)
                self._errors.truncate()
                answers.put((self, answer))
        except ValueError:
            self.babbles = True
            self._process.kill()
        finally:
            answers.put((self, None))  # else the parent would wait for ever


def main(folder: str) -> None:
    """Do runs until input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(sys.stdin, jobs, busy), daemon=True).start()
    store = Store(Path(folder))
    warnings.filterwarnings("ignore")
    load()
    # A blank, which JSON does not mind: if this process dies from here on, it dies of a run.
    print(" ", end="", file=answers, flush=True)
    while (job := jobs.get()) is not _END:
        answer = _do(job, store)
        busy.clear()  # before the answer, which the next job may follow at once
        print(json.dumps(answer), file=answers, flush=True)


def load() -> None:
    """Import all code that runs of this package go through, and note which version it is.

    `code_version` reads files, not what is loaded, and remembers what it read. Read right after the
    import and never again, its answer is about the code in this process, whatever happens to the
    files later. An edit before the import gives another version than the parent's; one while it
    lasts gives a false alarm. Only files that change and change back meanwhile would go unseen.
    A model of the user's own is imported, then read, when its first run comes.
    """
    from pamt_lightning import data
    from pamt_lightning.cli.parser import model_classes

    later = [module.name for module in iter_modules(data.__path__, f"{data.__name__}.")]
    for name in ("pamt_lightning.cli.lightning", "pamt_lightning.studies.edges", *later):
        import_module(name)
    for model in model_classes().values():
        code_version(f"{model.__module__}.{model.__qualname__}")


def _listen(stream: IO[str], jobs: queue.Queue[Any], busy: threading.Event) -> None:
    try:
        for line in stream:
            busy.set()
            jobs.put(json.loads(line))
    except ValueError:
        pass  # the parent died in the middle of a line
    jobs.put(_END)
    if busy.is_set():
        os._exit(1)  # nobody waits for this run any more; its lock is given back by the system


def _do(job: dict[str, Any], store: Store) -> dict[str, Any]:
    """Do a run unless another process has done it or is at it; the answer for the parent."""
    with store.claim(job["id"], retry=job.pop("retry", False)) as ours:
        if not ours:
            return {"id": job["id"], "status": "elsewhere"}
        started = time.monotonic()
        split_options = job.pop("split_options", ())
        row = {key: value for key, value in job.items() if key != "config"}
        row["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            if not is_current(job["config"]):
                return _stale(job, "code has")
            metrics, facts = fit(job["args"])
            if not was_meant(job["config"], facts.pop("config"), split_options):
                return _stale(job, "config files or the data have")
            row |= {"metrics": metrics, **facts}
            row["environment"] = store.add_context("environment", facts["environment"])
        except Exception as error:
            row["error"] = _one_line(error)
            if not isinstance(error, InputError):
                row["traceback"] = traceback.format_exc()
        except (KeyboardInterrupt, SystemExit):
            # Lightning makes a SystemExit of SIGTERM and Ctrl-C, with one code or another; what was
            # stopped is simply not done.
            os._exit(STOPPED)
        row["config"] = store.add_context("configuration", job["config"])
        row["wall_seconds"] = round(time.monotonic() - started, 3)
        store.add(row)
        status = "failed" if "error" in row else "done"
        told = {name: row.get(name) for name in ("wall_seconds", "error")}
        return {"id": job["id"], "status": status, **told}


def _stale(job: dict[str, Any], what: str) -> dict[str, Any]:
    return {"id": job["id"], "status": "stale", "error": _STALE.format(what=what)}


def was_meant(meant: dict[str, Any], config: dict[str, Any], split_options: Sequence[str]) -> bool:
    """Whether the configuration that was run is the one that the id of the run stands for."""
    of_id = {name: meant[name] for name in meant if name not in ("code", "threads")}
    return same_apart_from(split_options, of_id, what_matters(config))


def is_current(config: dict[str, Any]) -> bool:
    """Whether this process has loaded the code that the id of the run stands for."""
    return code_version(config["model"]["class_path"]) == str(config["code"])


def fit(args: list[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """One `pamt fit` that leaves no files: its figures, and facts about it."""
    from pamt_lightning.cli.lightning import PamtCLI
    from pamt_lightning.cli.parser import raised_errors
    from pamt_lightning.studies.edges import bad_edge_metrics
    from pamt_lightning.training.quiet import plain_errors, silence

    silence()
    with plain_errors(), raised_errors():
        # A config may say not to test; a run that was not tested is of no use here.
        cli = PamtCLI("fit", [*args, "--test_after_fit", "true"], leaves_files=False)
    record = cli.record
    names = ("val_acc", "val_loss", "epochs", "best_epoch", "seconds", "structure_noise")
    figures = {name: record[name] for name in names} | record["test_metrics"]
    figures |= bad_edge_metrics(cli.model, cli.datamodule)
    metrics = {name: float(value) for name, value in figures.items() if value is not None}
    metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
    others = ("tested_on", "inference", "data_hashes", "environment", "config")
    facts = {name: record[name] for name in others}
    return metrics, facts


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    main(sys.argv[1])
