"""The short tables that `pamt fit`, `pamt test` and `pamt validate` print."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from pytorch_lightning.loggers import TensorBoardLogger

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.plots import plots_available
from pamt_lightning.training.folders import RESULTS
from pamt_lightning.training.folds import FoldsResult
from pamt_lightning.training.run import RunResult
from pamt_lightning.training.stopping import BEST

_MOST_CLASSES = 20  # in a printed table


def print_run(result: RunResult) -> None:
    """Print the results of a run."""
    record = result.record
    sizes, noise, inference = record["sizes"], record["structure_noise"], record.get("inference")
    seed = "" if record["split"] == "given" else f", seed {record['split_seed']}"
    tests = record["test_metrics"]
    unreached = tests.get("test_unreached")
    seconds, num_threads = record["seconds"], record["environment"]["threads"]
    threads = "1 thread" if num_threads == 1 else f"{num_threads} threads"
    folder = None if result.folder is None else os.path.relpath(result.folder)
    has_board = folder and isinstance(result.trainer.logger, TensorBoardLogger)
    rows: list[tuple[str, str | None]] = [
        (
            "split",
            f"{record['split']}{seed}: {sizes['train']:,} training, "
            f"{sizes['val']:,} validation, {sizes['test']:,} {record['tested_on']}",
        ),
        ("noise", noise and f"{noise:.4f} of edges join two classes (oracle corruption)"),
        ("init seed", str(record["init_seed"])),
        ("epochs", f"{record['epochs']}, best {record['best_epoch']}"),
        ("inference", inference and f"{inference}, chosen on the validation nodes"),
        ("views", _pool_weights(record.get("views", {}))),
        ("val accuracy", percent(record["val_acc"])),
        ("test accuracy", percent(record["test_acc"])),
        ("  MLP alone", percent(tests.get("test_acc_network"))),
        ("  equal weights", percent(tests.get("test_acc_equal_weights"))),
        ("unreached", f"{percent(unreached)} of the test nodes" if unreached else None),
        ("seconds", f"{seconds:.{1 if seconds >= 1 else 3}f}, {threads}"),
        ("checkpoint", folder and f"{folder}/{BEST}"),
        ("results", folder and f"{folder}/{RESULTS}"),
        ("TensorBoard", f"tensorboard --logdir {folder}" if has_board else None),
        ("plots", None if plots_available() else "none: pip install 'pamt-lightning[plots]'"),
    ]
    print_table(_title(record["method"], result.datamodule), rows)


def print_folds(result: FoldsResult) -> None:
    """Print the results of a training on all labels."""
    record = result.record
    labels, found = record["labels"], record["estimate"]
    count, seconds = record["folds"], record["seconds"]
    folder = None if result.folder is None else os.path.relpath(result.folder)
    low, high = found["interval"]
    rows: list[tuple[str, str | None]] = [
        (
            "labels",
            f"{labels['known']:,} of {labels['nodes']:,} nodes, all used: {count} models, each "
            f"trained on {count - 1} parts of {count} and stopped on the other",
        ),
        ("init seed", str(record["init_seed"])),
        ("epochs", ", ".join(map(str, record["epochs"]))),
        ("views", _pool_weights(record.get("views", {}))),
        (
            "accuracy",
            f"{percent(found['accuracy'])} estimated for nodes without a label, "
            f"95 % interval {100 * low:.1f} to {100 * high:.1f}",
        ),
        ("macro F1", percent(found["f1_macro"])),
        ("seconds", f"{seconds:.1f}"),
        ("models", folder and f"{folder}/fold_1 … fold_{count}"),
        ("results", folder and f"{folder}/{RESULTS}"),
        ("predict", folder and f"pamt predict --ckpt_path {folder}"),
    ]
    print_table(_title(record["method"], result.datamodule), rows)
    _print_classes(found["per_class"])
    rare = [name for name, known in labels["per_class"].items() if known == 1]
    if rare:
        print(f"warning: one label only, so never tested: {', '.join(rare)}.", file=sys.stderr)


def _print_classes(rows: Mapping[str, Mapping[str, float]]) -> None:
    if len(rows) > _MOST_CLASSES:
        return
    width = max(5, *(len(name) for name in rows))
    print(f"  {'class':<{width}}  precision  recall  labels")
    for name, row in rows.items():
        shares = f"{100 * row['precision']:>7.1f} %  {100 * row['recall']:>4.1f} %"
        print(f"  {name:<{width}}  {shares}  {int(row['support']):>6,}")


def _pool_weights(views: Mapping[str, Mapping[str, float]]) -> str | None:
    """The weights of the views in the pool, the largest first, in percent of their sum."""
    total = sum(view["weight"] for view in views.values())
    if not total:
        return None
    ordered = sorted(views, key=lambda name: -views[name]["weight"])
    shares = {name: round(100 * views[name]["weight"] / total) for name in ordered}
    shown = ", ".join(f"{name} {share} %" for name, share in shares.items() if share)
    return f"{shown} of the weight in the pool"


def print_metrics(metrics: Mapping[str, float], method: str, data: GraphDataModule) -> None:
    """Print the metrics of a checkpoint."""
    shares = ("acc", "f1", "unreached")
    rows = [
        (name, percent(value) if any(word in name for word in shares) else f"{value:.4f}")
        for name, value in metrics.items()
    ]
    print_table(_title(method, data), rows)


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


def _title(method: str, data: GraphDataModule) -> str:
    graph = data.graph
    return (
        f"{method} on {data.dataset_name} ({graph.num_nodes:,} nodes, "
        f"{graph.num_edges:,} edges, {graph.num_features:,} features, {graph.num_classes} classes)"
    )
