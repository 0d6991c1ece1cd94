"""What is left of a run: results.json, the printed table, predictions as CSV."""

from __future__ import annotations

import csv
import json
import math
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.training.folders import write_whole
from pamt_lightning.version import __version__

_ROWS_AT_ONCE = 20_000
_STATUS = Path("/proc/self/status")


def environment() -> dict[str, str | int]:
    """Versions and machine facts that a result may depend on."""
    packages = ("torch", "pytorch-lightning", "torchmetrics", "numpy", "scipy", "jsonargparse")
    return {
        "pamt-lightning": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        **{name: version(name) for name in packages},
    }


def peak_memory_mb() -> float | None:
    """Peak resident memory of this process in MB, where the system tells."""
    with suppress(OSError, StopIteration):
        # Not getrusage where this is there: its peak goes back to before the program was started,
        # to that of the process which started it.
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("VmHWM:"))
        return round(1024 * int(line.split()[1]) / 1e6, 1)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6, 1)


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write results.json."""
    write_whole(path, lambda file: json.dump(_finite(results), file, indent=2, default=str))


def _finite(value: Any) -> Any:
    # JSON has no NaN and no infinity; strict readers refuse a file that has them.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def print_table(title: str, rows: Iterable[tuple[str, str | None]]) -> None:
    """Print a title and aligned lines; rows without a value are left out."""
    shown = [(name, value) for name, value in rows if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    print(title)
    for name, value in shown:
        print(f"  {name:<{width}}  {value}")


def percent(share: float | None) -> str | None:
    """A share as text, 0.7938 -> '79.38 %'."""
    return None if share is None else f"{100 * share:.2f} %"


def write_predictions(path: Path, graph: Graph, probs: torch.Tensor) -> None:
    """Write one line per node: its own id, the class, its probability, and those of all classes.

    Args:
        path: The CSV file; replaced whole.
        graph: The graph, for node ids and class names.
        probs: Class probabilities ``[N, C]``.
    """
    names = np.asarray(graph.class_names, dtype=object)
    ids = np.asarray(graph.node_ids)

    def write(file: IO[str]) -> None:
        writer = csv.writer(file)
        writer.writerow(["node_id", "class", "probability", *(f"p_{name}" for name in names)])
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            block = probs[part].double().numpy()
            best = block.argmax(axis=1)  # before rounding, which makes ties
            block = block.round(6)
            columns = [ids[part].tolist(), names[best].tolist(), block.max(axis=1).tolist()]
            writer.writerows(zip(*columns, *block.T.tolist(), strict=True))

    write_whole(path, write)
