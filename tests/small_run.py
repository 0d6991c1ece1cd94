"""A run that takes a fraction of a second, and helpers for tests of the command line."""

from __future__ import annotations

import csv
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pamt_lightning.cli.main import main
from pamt_lightning.training.config import RunConfig

SYNTHETIC = {"num_nodes": 240, "num_classes": 3, "num_features": 60, "words_per_node": 8.0}
DATA = [
    *(word for k, v in SYNTHETIC.items() for word in (f"--data.synthetic.{k}", str(v))),
    *("--data.train", "5", "--data.val", "60", "--trainer.enable_progress_bar", "false"),
]
SMALL = [
    *(*DATA, "--model.hidden_dim", "8"),
    *("--model.pretrain_epochs", "5", "--trainer.max_epochs", "6"),
]


def small_config(method: str = "PAMT", **model: Any) -> RunConfig:
    """A small run from Python."""
    return RunConfig.create(
        method,
        data={"synthetic": SYNTHETIC, "train": 5, "val": 60},
        model=model,
        trainer={"max_epochs": 4},
    )


def output_of(argv: list[str], code: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command that must end with ``code``."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(argv) == code, err.getvalue()
    return out.getvalue(), err.getvalue()


def failed(argv: list[str]) -> str:
    """The one line of a command that must fail with code 2."""
    out, err = output_of(argv, 2)
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"pamt {argv[0]}: error: ")
    assert line.endswith((".", "?"))
    return line


def parsed(argv: list[str]) -> dict[str, Any]:
    """The configuration that `pamt fit` makes of the arguments."""
    config: dict[str, Any] = yaml.safe_load(output_of(["fit", *argv, "--print_config"])[0])
    return config


def results(folder: Path | str) -> dict[str, Any]:
    """The results.json of a run."""
    record: dict[str, Any] = json.loads((Path(folder) / "results.json").read_text())
    return record


def rows_of(path: Path | str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_own_graph(folder: Path, labels: list[str] | None = None, seed: int = 0) -> None:
    """30 nodes called n0 … n29 in two rings, with attributes that tell red from blue."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    labels = labels or ["blue" if node % 2 else "red" for node in range(30)]
    nodes = ["id,label,a,b"]
    for node, label in enumerate(labels):
        a = random.random() + (1.0 if node % 2 else 0.0)
        nodes.append(f"n{node},{label},{a:.4f},{2.0 - a:.4f}")
    edges = ["source,target", *(f"n{i},n{(i + 2) % 30}" for i in range(30))]
    (folder / "nodes.csv").write_text("\n".join(nodes))
    (folder / "edges.csv").write_text("\n".join(edges))
