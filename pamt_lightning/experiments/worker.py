"""One process that does runs, one after the other, as its parent names them.

Runs come in as JSON lines on standard input, answers go out as JSON lines on what was standard
output; whatever else a run prints goes nowhere. If the parent dies, input ends and so do we.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import IO, Any

from pamt_lightning.errors import InputError
from pamt_lightning.experiments.store import Store

_END = None


def main(folder: str) -> None:
    """Do runs until input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(sys.stdin, jobs, busy), daemon=True).start()
    store = Store(Path(folder))
    warnings.filterwarnings("ignore")
    while (job := jobs.get()) is not _END:
        answer = _do(job, store)
        busy.clear()  # before the answer, which the next job may follow at once
        print(json.dumps(answer), file=answers, flush=True)


def _listen(stream: IO[str], jobs: queue.Queue[Any], busy: threading.Event) -> None:
    for line in stream:
        busy.set()
        jobs.put(json.loads(line))
    jobs.put(_END)
    if busy.is_set():
        os._exit(1)  # nobody waits for this run any more; its lock is given back by the system


def _do(job: dict[str, Any], store: Store) -> dict[str, Any]:
    """Do a run unless another process has done it or is at it; the answer for the parent."""
    with store.claim(job["id"], retry=job.pop("retry", False)) as ours:
        if not ours:
            return {"id": job["id"], "status": "elsewhere"}
        started = time.monotonic()
        row = {key: value for key, value in job.items() if key != "config"}
        row["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        row["config"] = store.add_context("configuration", job["config"])
        try:
            metrics, facts = fit(job["args"])
            row |= {"metrics": metrics, **facts}
            row["environment"] = store.add_context("environment", facts["environment"])
        except Exception as error:
            row["error"] = _one_line(error)
            if not isinstance(error, InputError):
                row["traceback"] = traceback.format_exc()
        except SystemExit as stop:
            row["error"] = f"stopped with code {stop.code}: an option is wrong."
        store.add(row)
        seconds = time.monotonic() - started
        status = "failed" if "error" in row else "done"
        return {"id": job["id"], "status": status, "seconds": seconds, "error": row.get("error")}


def fit(args: list[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """One `pamt fit` that leaves no files: its figures, and facts about it."""
    from pamt_lightning.cli import PamtCLI
    from pamt_lightning.experiments.edges import bad_edge_metrics
    from pamt_lightning.quiet import plain_errors, silence

    silence()
    with plain_errors():
        # A config may say not to test; a run that was not tested is of no use here.
        cli = PamtCLI("fit", [*args, "--test_after_fit", "true"], leaves_files=False)
    record = cli.record
    names = ("val_acc", "val_loss", "epochs", "best_epoch", "seconds", "structure_noise")
    figures = {name: record[name] for name in names} | record["test_metrics"]
    figures |= bad_edge_metrics(cli.model, cli.datamodule)
    metrics = {name: float(value) for name, value in figures.items() if value is not None}
    metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
    facts = {name: record[name] for name in ("tested_on", "data_hashes", "environment")}
    return metrics, facts


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    main(sys.argv[1])
