"""All labels at work: a model for each fold of the labelled nodes, and their mean."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.splits import stratified_folds
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.graph import Graph
from pamt_lightning.training.config import CONFIG, RunConfig
from pamt_lightning.training.folders import RESULTS, choose_folder
from pamt_lightning.training.quiet import silence_lightning
from pamt_lightning.training.results import environment, write_results
from pamt_lightning.training.run import (
    RunResult,
    as_saved,
    build_data,
    evaluate,
    predict_mean,
    run,
    what_is_left,
)
from pamt_lightning.training.stopping import BEST, LAST

_Z = 1.959964  # of a 95 % interval


@dataclass(frozen=True)
class FoldsResult:
    """A finished training on all labels.

    Attributes:
        config: The run.
        record: What ``results.json`` holds.
        runs: The run of each fold.
        datamodule: The data, with the split of the last fold.
        probs: Class probabilities of all nodes, the mean of all models, shape ``[N, C]``.
        folder: Where the files are; None if none were written.
    """

    config: RunConfig
    record: dict[str, Any]
    runs: tuple[RunResult, ...]
    datamodule: GraphDataModule
    probs: Tensor
    folder: Path | None

    @property
    def accuracy(self) -> float:
        """The estimated accuracy on nodes without a label."""
        return float(self.record["estimate"]["accuracy"])

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of that accuracy."""
        low, high = self.record["estimate"]["interval"]
        return float(low), float(high)

    def __repr__(self) -> str:
        name, data, low = self.record["method"], self.record["dataset"], self.interval[0]
        return (
            f"FoldsResult({name} on {data}, accuracy={self.accuracy:.4f} "
            f"({low:.4f} to {self.interval[1]:.4f}), folder={self.folder})"
        )


def run_folds(
    config: RunConfig,
    *,
    graph: Graph | None = None,
    folder: Path | str | None = None,
    root: Path | str | None = None,
    resume: Path | str | None = None,
    quiet: bool = False,
) -> FoldsResult:
    """Train a model for each fold of the labelled nodes, stopping on that fold.

    Every label trains all models but one. Each labelled node is predicted by the model that was
    not trained on it, at an epoch that was chosen without it (`OutOfFold`), which gives an honest
    accuracy; the prediction for other nodes is the mean of all models, which is rarely worse.

    The arguments are those of `run`; ``resume`` is the folder of the run, or ``last``.
    """
    config = replace(config, data={**config.data, "split": "all", "fold": None}, test=False)
    if _has_several_devices(config):
        raise InputError(
            "`split`='all' trains a model for each part of the labels, in one process: for several "
            "devices add --data.fold 1, which trains one of them, or choose another split."
        )
    data = _build(config.complete(), graph)
    data.setup("fit")
    labels = data.graph.y.numpy()
    num_folds = count_folds(labels, data)
    place = None
    if folder or root or resume:
        place = choose_folder(data, config.method, config.seed, folder, root, resume)
    path = place.path if place else None
    if path:
        as_saved(config, data).save(path / CONFIG)  # what a run that is interrupted resumes with
    runs = []
    try:
        for fold in range(1, num_folds + 1):
            if not quiet:
                print(f"model {fold} of {num_folds}", file=sys.stderr)
            runs.append(_run_fold(config, data, fold, path, quiet))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {what_is_left(place)}") from None
    finally:
        if place and len(runs) < num_folds:
            place.remove_if_unused()
    record = _record(config, data, runs)
    probs = predict_mean([each.model for each in runs], data)
    if path:
        write_results(path / RESULTS, record)
    return FoldsResult(config, record, tuple(runs), data, probs, path)


def predict_folds(config: RunConfig, folder: Path) -> tuple[Tensor, GraphDataModule]:
    """The mean of the predictions of all models of a run on some data."""
    finished = folder / RESULTS
    if not finished.is_file():
        raise CheckpointError(
            f"{folder} is not finished: it has no {RESULTS}. Resume it with pamt fit --ckpt_path "
            f"{folder}."
        )
    data = build_data(config, None)
    found = [
        evaluate(config, path / BEST, "predict", datamodule=data)[0]
        for path in fold_folders(folder)
    ]
    return torch.stack(found).mean(0), data


def _build(config: RunConfig, graph: Graph | None) -> GraphDataModule:
    silence_lightning()
    return build_data(config, graph)


def with_default_split(config: RunConfig) -> RunConfig:
    """The same run, with the split ``all`` for the user's own graph unless another one is named.

    Several devices train one model, which stops on the first part of the labels.
    """
    data = config.data
    named = ("split", "train", "val", "test", "num_known", "split_path")
    if data.get("path") is None or any(data.get(name) is not None for name in named):
        return config
    if config.trainer.get("fast_dev_run"):
        return config
    fold = data.get("fold") or (1 if _has_several_devices(config) else None)
    return replace(config, data={**data, "split": "all", "fold": fold})


def uses_all_labels(config: RunConfig) -> bool:
    """Whether a run trains a model for each part of the labels."""
    return config.data.get("split") == "all" and config.data.get("fold") is None


def _has_several_devices(config: RunConfig) -> bool:
    devices: Any = config.trainer.get("devices", 1)
    if isinstance(devices, str):
        devices = devices.strip()
        if "," in devices:
            devices = [part for part in devices.split(",") if part.strip()]
        elif devices != "auto":
            devices = int(devices)
    if devices in ("auto", -1):
        devices = torch.cuda.device_count()
    count = len(devices) if isinstance(devices, (list, tuple)) else int(devices or 1)
    return count > 1 or int(config.trainer.get("num_nodes") or 1) > 1


def count_folds(labels: np.ndarray[Any, Any], data: GraphDataModule) -> int:
    """The number of models: fewer if there are few labels."""
    return len(stratified_folds(labels, data.folds, data.split_seed))


def fold_folders(folder: Path) -> list[Path]:
    """The folders of the models of a run with the split ``all``; empty for another run."""
    found = [path for path in folder.glob("fold_*") if path.name[5:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def _run_fold(
    config: RunConfig, data: GraphDataModule, fold: int, folder: Path | None, quiet: bool
) -> RunResult:
    data.select_fold(fold)
    place = folder / f"fold_{fold}" if folder else None
    part = replace(config, data={**config.data, "fold": fold})
    resume = place / LAST if place and (place / LAST).is_file() else None
    return run(part, folder=place, resume=resume, quiet=quiet, datamodule=data)


def _record(config: RunConfig, data: GraphDataModule, runs: list[RunResult]) -> dict[str, Any]:
    graph = data.graph
    labels = graph.y.numpy()
    predicted = np.full((graph.num_nodes, graph.num_classes), np.nan)
    for number, each in enumerate(runs, start=1):
        data.select_fold(number)
        found = each.model.out_of_fold_probs()
        if data.split is not None and found is not None:
            predicted[data.split.val] = found.cpu().numpy()
    tested = np.flatnonzero(~np.isnan(predicted[:, 0]))
    known = np.flatnonzero(labels >= 0)
    counts = np.bincount(labels[known], minlength=graph.num_classes)
    records = [each.record for each in runs]
    first = records[0]
    return {
        **{name: first[name] for name in ("method", "dataset", "split_seed", "init_seed")},
        "split": "all",
        "folds": len(runs),
        "structure_noise": data.achieved_noise,
        "test_acc": None,
        "val_acc": float(np.mean([each["val_acc"] for each in records])),
        "epochs": [each["epochs"] for each in records],
        "best_epoch": [each["best_epoch"] for each in records],
        "seconds": round(sum(each["seconds"] for each in records), 3),
        "peak_memory_mb": max(each["peak_memory_mb"] for each in records),
        "estimate": estimate(predicted[tested].argmax(1), labels[tested], graph.class_names),
        "labels": {
            "known": len(known),
            "nodes": graph.num_nodes,
            "per_class": dict(zip(graph.class_names, counts.tolist(), strict=True)),
        },
        "sizes": {**first["sizes"], "train": None, "val": None, "test": 0},
        "test_metrics": {},
        "data_hashes": first["data_hashes"],
        "data_notes": first["data_notes"],
        "environment": environment(),
        "command": first["command"],
        "config": config.to_dict(),
        **({"views": _mean_views(records)} if "views" in first else {}),
    }


def _mean_views(records: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The views of PAMT_plus, their weights and accuracies averaged over the models."""
    return {
        name: {
            key: float(np.mean([each["views"][name][key] for each in records]))
            for key in ("weight", "val_acc", "best_epoch")
        }
        for name in records[0]["views"]
    }


def estimate(
    predicted: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], class_names: tuple[str, ...]
) -> dict[str, Any]:
    """Accuracy with its 95 % interval (Wilson), and precision and recall of each class."""
    right = int(np.sum(predicted == labels))
    per_class = {}
    for number, name in enumerate(class_names):
        found, true = predicted == number, labels == number
        hits = int(np.sum(found & true))
        precision = hits / int(found.sum()) if found.any() else 0.0
        recall = hits / int(true.sum()) if true.any() else 0.0
        total = precision + recall
        per_class[name] = {
            "precision": precision,
            "recall": recall,
            "f1": 2 * precision * recall / total if total else 0.0,
            "support": int(true.sum()),
        }
    present = [row for row in per_class.values() if row["support"]]
    return {
        "accuracy": right / len(labels) if len(labels) else math.nan,
        "interval": wilson_interval(right, len(labels)),
        "labels": len(labels),
        "f1_macro": float(np.mean([row["f1"] for row in present])) if present else math.nan,
        "balanced_accuracy": (
            float(np.mean([row["recall"] for row in present])) if present else math.nan
        ),
        "per_class": per_class,
    }


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927).

    >>> [round(end, 4) for end in wilson_interval(90, 100)]
    [0.8256, 0.9448]
    """
    if total == 0:
        return 0.0, 1.0
    share, ratio = right / total, _Z**2 / total
    middle = (share + ratio / 2) / (1 + ratio)
    half = _Z / (1 + ratio) * math.sqrt(share * (1 - share) / total + ratio / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)
