"""Runs for tests: made up, and done by worker processes that only pretend to train."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from pamt_lightning.studies.expand import Run
from pamt_lightning.studies.outcome import Cell

PATIENCE = 180.0  # seconds; the machine may be busy

# A real worker but for what it does with a run: the last argument says that.
PRETENDING = """
import os, signal, sys, time
from pathlib import Path
from pamt_lightning.errors import InputError
from pamt_lightning.studies import worker

def fit(args):
    if args[-1] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if args[-1].startswith("says "):
        print(args[-1].removeprefix("says "), file=sys.stderr, flush=True)
    if args[-1].startswith("leaves"):
        print(args[-1].removeprefix("leaves").strip(), file=sys.stderr, flush=True)
        os._exit(3)
    if args[-1] == "is terminated":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1000)
    if args[-1].startswith("is terminated unless "):
        path = Path(args[-1].removeprefix("is terminated unless "))
        if not path.exists():
            path.touch()
            raise SystemExit(130)
    if args[-1] == "is stopped by Lightning":
        raise SystemExit(130)
    if args[-1] == "is interrupted":
        raise KeyboardInterrupt
    if args[-1] == "is refused":
        raise InputError("`alpha` is\\n  wrong.")
    if args[-1] == "breaks":
        raise KeyError("a bug")
    if args[-1].startswith("waits for "):
        while not Path(args[-1].removeprefix("waits for ")).exists():
            time.sleep(0.01)
    facts = {"tested_on": "test nodes", "data_hashes": {}, "environment": {"python": "3"}}
    facts["config"] = {}
    return {"test_acc": 0.5, "process": float(os.getpid()), "seconds": 0.25}, facts

worker.fit, worker.load = fit, lambda: None
worker.is_current = lambda config: config["code"] != "old"
worker.was_meant = lambda meant, *_: meant["code"] != "edited"
worker.main(sys.argv[1])
"""
PRETEND = ("-c", PRETENDING)

SMALL = {"data.synthetic.num_nodes": 300, "trainer.max_epochs": 30}


def made_up_run(name: str, what: str = "is done", code: str = "new") -> Run:
    """A run for a worker that pretends."""
    config: dict[str, Any] = {"model": {"class_path": "Pretended"}, "code": code}
    return Run(name, Cell("nowhere", "PAMT"), "test0", 0, ("--what", what), config)


def write_study(path: Path, **content: Any) -> str:
    """A study of small runs as a YAML file; returns its name."""
    small = {"datasets": ["synthetic"], "methods": ["PTS", "PAMT"], "options": SMALL}
    path.write_text(yaml.safe_dump({**small, "seeds": ["test0"], **content}), encoding="utf-8")
    return str(path)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True)
    pairs = [line.split() for line in table.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for somebody to take note of its end."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()[:1] in ("", "Z")
