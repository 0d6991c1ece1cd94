"""From a finished run to its record, and from the record to what is printed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import TensorBoardLogger

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.methods.pamt import INFERENCES, PAMTModule
from pamt_lightning.methods.pamt_plus import PAMTPlusModule
from pamt_lightning.plots import plots_available
from pamt_lightning.training.folders import RESULTS
from pamt_lightning.training.results import environment, peak_memory_mb, percent, print_table
from pamt_lightning.training.stopping import BEST, BestStopping


def result_record(
    trainer: pl.Trainer,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
    stopping: BestStopping,
    *,
    init_seed: int,
    test_metrics: dict[str, float],
    config: dict[str, Any],
) -> dict[str, Any]:
    """Everything worth keeping of a run, ready for results.json; TensorBoard gets the hparams."""
    graph, split = datamodule.graph, datamodule.split
    record = {
        "method": model.method,
        "dataset": datamodule.dataset_name,
        "split": datamodule.split_name,
        "split_seed": datamodule.split_seed,
        "tested_on": datamodule.tested_on,
        "init_seed": init_seed,
        "structure_noise": datamodule.achieved_noise,
        "noise_seed": datamodule.noise_seed if datamodule.structure_noise is not None else None,
        "test_acc": test_metrics.get("test_acc"),
        "val_acc": stopping.best_acc if stopping.best_state else None,
        "val_loss": stopping.best_loss if stopping.best_state else None,
        "epochs": trainer.fit_loop.epoch_progress.current.completed,
        "best_epoch": stopping.best_epoch,
        "inference": chosen_inference(model),
        "random_edges": getattr(model, "random_share", None),
        "seconds": round(stopping.seconds, 3),
        "peak_memory_mb": peak_memory_mb(),
        "test_metrics": test_metrics,
        "sizes": {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "classes": graph.num_classes,
            "train": len(split.train) if split else None,
            "val": len(split.val) if split else None,
            "test": len(split.test) if split else None,
        },
        "data_hashes": dict(datamodule.raw.hashes),
        "environment": environment(),
        "command": ["pamt", *sys.argv[1:]],
        "config": config,
    }
    _log_hparams(trainer, model, record)
    return record


def chosen_inference(model: NodeClassificationModule) -> str | None:
    """What `inference` auto has chosen; none where there was no choice."""
    if isinstance(model, PAMTPlusModule) and model.inference == "auto":
        return model.chosen
    if isinstance(model, PAMTModule) and model.inference == "auto":
        return INFERENCES[int(model.inference_choice)]
    return None


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


def print_fit(
    record: dict[str, Any], datamodule: GraphDataModule, folder: Path | None, board: bool = True
) -> None:
    """The short table after a fit; ``board`` says whether TensorBoard has something to show."""
    sizes, noise = record["sizes"], record["structure_noise"]
    seed = "" if record["split"] == "given" else f", seed {record['split_seed']}"
    random_edges = record["random_edges"]
    network = record["test_metrics"].get("test_acc_network")
    unreached = record["test_metrics"].get("test_unreached")
    seconds, num_threads = record["seconds"], record["environment"]["threads"]
    threads = "1 thread" if num_threads == 1 else f"{num_threads} threads"
    folder_text = None if folder is None else os.path.relpath(folder)
    print_table(
        _title(record["method"], datamodule),
        [
            (
                "split",
                f"{record['split']}{seed}: {sizes['train']:,} training, "
                f"{sizes['val']:,} stopping, {sizes['test']:,} {record['tested_on']}",
            ),
            ("noise", noise and f"{noise:.4f} of edges join two classes (oracle corruption)"),
            ("init seed", str(record["init_seed"])),
            ("epochs", f"{record['epochs']}, best {record['best_epoch']}"),
            (
                "inference",
                record["inference"] and f"{record['inference']}, chosen on the stopping nodes",
            ),
            (
                "random edges",
                None
                if random_edges is None
                else f"up to {100 * random_edges:.0f} % of the edges look drawn at random",
            ),
            ("val accuracy", percent(record["val_acc"])),
            ("test accuracy", percent(record["test_acc"])),
            ("  MLP alone", percent(network)),
            ("unreached", f"{percent(unreached)} of the test nodes" if unreached else None),
            ("seconds", f"{seconds:.{1 if seconds >= 1 else 3}f}, {threads}"),
            ("checkpoint", folder_text and f"{folder_text}/{BEST}"),
            ("results", folder_text and f"{folder_text}/{RESULTS}"),
            ("TensorBoard", f"tensorboard --logdir {folder_text}" if board and folder else None),
            (
                "plots",
                None if plots_available() else "none: pip install 'pamt-lightning[plots]'",
            ),
        ],
    )


def print_metrics(metrics: Any, method: str, datamodule: GraphDataModule) -> None:
    """The metrics of `pamt test` and `pamt validate`."""
    shares = ("acc", "f1", "unreached")
    rows = [
        (name, percent(value) if any(word in name for word in shares) else f"{value:.4f}")
        for name, value in metrics.items()
    ]
    print_table(_title(method, datamodule), rows)


def _title(method: str, datamodule: GraphDataModule) -> str:
    graph = datamodule.graph
    return (
        f"{method} on {datamodule.dataset_name} ({graph.num_nodes:,} nodes, "
        f"{graph.num_edges:,} edges, {graph.num_features:,} features, {graph.num_classes} classes)"
    )
