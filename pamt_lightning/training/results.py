"""What a run leaves: the record in results.json, and predictions as CSV."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import TensorBoardLogger

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.files import write_whole
from pamt_lightning.graph import Graph
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.memory import peak_memory_mb
from pamt_lightning.training.stopping import BestStopping
from pamt_lightning.version import __version__

if TYPE_CHECKING:
    import pandas as pd

_ROWS_AT_ONCE = 20_000


def result_record(
    config: RunConfig,
    trainer: pl.Trainer,
    model: NodeClassificationModule,
    data: GraphDataModule,
    stopping: BestStopping,
    test_metrics: Mapping[str, float],
) -> dict[str, Any]:
    """Everything worth keeping of a run; TensorBoard gets the hyper-parameters."""
    graph, split = data.graph, data.split
    record = {
        "method": config.method,
        "dataset": data.dataset_name,
        "split": data.split_name,
        "split_seed": data.split_seed,
        "tested_on": data.tested_on,
        "init_seed": config.seed,
        "structure_noise": data.achieved_noise,
        "noise_seed": data.noise_seed if data.structure_noise is not None else None,
        "test_acc": test_metrics.get("test_acc"),
        "val_acc": stopping.best_acc if stopping.best_state else None,
        "val_loss": stopping.best_loss if stopping.best_state else None,
        "epochs": trainer.fit_loop.epoch_progress.current.completed,
        "best_epoch": stopping.best_epoch,
        "seconds": round(stopping.seconds, 3),
        "peak_memory_mb": peak_memory_mb(),
        "test_metrics": dict(test_metrics),
        "sizes": {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "classes": graph.num_classes,
            **{k: len(getattr(split, k)) if split else None for k in ("train", "val", "test")},
        },
        "data_hashes": dict(data.raw.hashes),
        "data_notes": list(data.raw.notes) if data.spec is None else [],
        "environment": environment(),
        "command": ["pamt", *sys.argv[1:]],
        "config": config.to_dict(),
        **model.report(),
    }
    _log_hparams(trainer, model, record)
    return record


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


def write_results(path: Path, record: Mapping[str, Any]) -> None:
    """Write results.json."""
    write_whole(path, lambda file: json.dump(_finite(record), file, indent=2, default=str))


def prediction_frame(ids: Any, class_names: Any, probs: Any) -> pd.DataFrame:
    """A table of ``probs [N, C]``: node id, class, its probability, those of all classes."""
    import pandas as pd  # a quarter of a second that other commands need not wait for

    names = np.asarray(class_names)
    best = probs.argmax(axis=1)  # before rounding, which makes ties
    block = np.asarray(probs, dtype=np.float64).round(6)
    frame = pd.DataFrame({"node_id": ids, "class": names[best]})
    frame["probability"] = block.max(axis=1)
    frame[[f"p_{name}" for name in names]] = block
    return frame


def write_predictions(path: Path, graph: Graph, probs: torch.Tensor) -> None:
    """Write the table of predictions as CSV."""
    names, ids = np.asarray(graph.class_names, dtype=object), np.asarray(graph.node_ids)

    def write(file: IO[str]) -> None:
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            frame = prediction_frame(ids[part], names, probs[part].double().numpy())
            frame.to_csv(file, index=False, header=start == 0, lineterminator="\n")

    write_whole(path, write)


def _finite(value: Any) -> Any:
    # JSON has no NaN and no infinity; strict readers refuse a file that has them.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _log_hparams(
    trainer: pl.Trainer, model: NodeClassificationModule, record: dict[str, Any]
) -> None:
    if not isinstance(trainer.logger, TensorBoardLogger):
        return
    names = ("method", "dataset", "split_seed", "init_seed", "structure_noise")
    options = {k: v for k, v in model.hparams.items() if not k.startswith("_")}
    metrics = {f"hp/{k}": record[k] for k in ("val_acc", "test_acc") if record[k] is not None}
    trainer.logger.log_hyperparams({**{k: record[k] for k in names}, **options}, metrics)
    trainer.logger.save()
