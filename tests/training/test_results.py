from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.training import results
from pamt_lightning.training.results import write_predictions, write_results
from tests.small_run import rows_of

ODD_IDS = ["a,b", 'say "hi"', "ünï ☃", " spaces ", "two\nlines", "007"]


def odd_graph(class_names: tuple[str, ...] = ("yes, sir", "nö", "c")) -> Graph:
    nothing = sp.csr_array((6, 6), dtype=np.float32)
    return Graph.from_scipy(np.ones((6, 1)), nothing, [-1] * 6, class_names, np.array(ODD_IDS))


@pytest.mark.parametrize("rows_at_once", [20_000, 4, 1])
def test_predictions_come_back_with_odd_ids_and_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(results, "_ROWS_AT_ONCE", rows_at_once)
    probs = torch.softmax(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    path = tmp_path / "predictions.csv"
    write_predictions(path, odd_graph(), probs)
    rows = rows_of(path)
    assert list(rows[0]) == ["node_id", "class", "probability", "p_yes, sir", "p_nö", "p_c"]
    assert [row["node_id"] for row in rows] == ODD_IDS
    names = odd_graph().class_names
    assert [row["class"] for row in rows] == [names[c] for c in probs.argmax(1)]
    written = np.array([[float(row[f"p_{name}"]) for name in names] for row in rows])
    np.testing.assert_allclose(written, probs.numpy(), rtol=0, atol=6e-7)
    best = [float(row["probability"]) for row in rows]
    np.testing.assert_array_equal(best, written.max(axis=1))


def test_rounding_shortens_numbers_and_never_changes_the_class(tmp_path: Path) -> None:
    probs = torch.tensor([[0.4999999, 0.5000001]], dtype=torch.float64).repeat(6, 1)
    write_predictions(tmp_path / "p.csv", odd_graph(("first", "second")), probs)
    assert {row["class"] for row in rows_of(tmp_path / "p.csv")} == {"second"}
    write_predictions(tmp_path / "p.csv", odd_graph(), torch.full((6, 3), 1 / 3))
    row = rows_of(tmp_path / "p.csv")[0]
    assert row["probability"] == row["p_c"] == "0.333333"


def test_results_are_strict_json(tmp_path: Path) -> None:
    record = {"test_acc": 0.5, "name": "ünï", "none": None, "sizes": {"nodes": 3}}
    odd = {"path": Path("a/b"), "loss": math.nan, "list": [1.0, math.inf]}
    write_results(tmp_path / "results.json", {**record, **odd})
    text = (tmp_path / "results.json").read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert found == {**record, "path": str(Path("a/b")), "loss": None, "list": [1.0, None]}
