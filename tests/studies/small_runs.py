"""Runs for tests: made up, and computed by functions that only pretend to train."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pamt_lightning.errors import InputError
from pamt_lightning.studies.executor import Executor, Finished, Payload, Work, perform
from pamt_lightning.studies.results import Results
from pamt_lightning.studies.runs import Run
from pamt_lightning.studies.study import Cell
from pamt_lightning.training.config import RunConfig

PATIENCE = 120.0  # seconds; the machine may be busy
SMALL = {"data.synthetic.num_nodes": 300, "trainer.max_epochs": 30}


def pretend(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker does in place of training: what the option ``model.what`` says."""
    what = str(payload["config"]["model"]["init_args"].get("what", ""))
    verb, _, rest = what.partition(" ")
    if verb == "kill":
        os.kill(os.getpid(), int(rest))
        time.sleep(1000)
    elif verb in ("print", "exit"):
        print(rest, file=sys.stderr, flush=True)
        print(rest, flush=True)
        if verb == "exit":
            os._exit(3)
    elif verb == "interrupt":
        raise KeyboardInterrupt
    elif verb == "refuse":
        raise InputError("`alpha` is\n  wrong.")
    elif verb == "break":
        raise KeyError("a bug")
    elif verb == "outdated":
        return {"outdated": "the data changed"}
    elif verb == "wait":
        while not Path(rest).exists():
            time.sleep(0.01)
    return {
        "metrics": {"test_acc": 0.5, "val_acc": 0.4, "process": float(os.getpid())},
        "environment": {"python": "3", "threads": os.environ.get("OMP_NUM_THREADS", "")},
    }


def fail_to_start() -> None:
    """A worker process that cannot even start."""
    raise OSError("no such library")


class FakeExecutor(Executor):
    """Computes jobs in this process when it is waited for them, the oldest first."""

    def __init__(self, work: Work = pretend, slots: int = 1) -> None:
        self.work, self.slots = work, slots
        self.jobs: list[tuple[str, Payload]] = []
        self.submitted: list[str] = []

    def submit(self, job_id: str, payload: Payload) -> None:
        assert len(self.jobs) < self.slots
        self.jobs.append((job_id, payload))
        self.submitted.append(job_id)

    def wait(self, timeout: float) -> list[Finished]:
        job_id, payload = self.jobs.pop(0)
        return [Finished(job_id, perform(self.work, payload))]

    def close(self) -> None:
        self.jobs.clear()


def made_up_config(**init_args: Any) -> RunConfig:
    """A configuration that nothing can train."""
    return RunConfig("PAMT", {"class_path": "pamt_lightning.PAMTModule", "init_args": init_args})


def made_up_run(name: str, what: str = "") -> Run:
    """A run for `pretend`."""
    config = made_up_config(what=what)
    return Run(name, f"config-{name}", Cell("nowhere", "PAMT"), "test0", 0, config)


def write_study(path: Path, **content: Any) -> str:
    """A study of small runs as a YAML file; returns its name."""
    small = {"datasets": ["synthetic"], "methods": ["PTS", "PAMT"], "options": SMALL}
    path.write_text(yaml.safe_dump({**small, "seeds": ["test0"], **content}), encoding="utf-8")
    return str(path)


def is_claimed(results: Results, run_id: str) -> bool:
    """Whether some command has claimed this run."""
    another = Results(results.folder)
    if claimed := another.claim(run_id, retry=True):
        another.release(run_id)
    return not claimed and "metrics" not in results.rows().get(run_id, {})


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def workers_of(pid: int) -> list[int]:
    """The worker processes of a process; its other child is multiprocessing's resource tracker."""
    table = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True
    )
    rows = [line.split(None, 2) for line in table.stdout.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == pid and "spawn_main" in row[2]]


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for somebody to take note of its end."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()[:1] in ("", "Z")
