"""Tables with columns of all kinds, from training to a prediction on new rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pamt_lightning import Graph, PAMTClassifier
from pamt_lightning.cli.main import main
from tests.small_run import output_of, results, rows_of

pytestmark = pytest.mark.usefixtures("elsewhere")
QUIET = ["--trainer.enable_progress_bar", "false", "--trainer.max_epochs", "30"]
WORDS = (["rock", "guitar", "loud"], ["opera", "violin", "quiet"])


def shops(count: int, seed: int, cities: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two kinds of nodes; each column says something about the kind."""
    random = np.random.default_rng(seed)
    kind = random.integers(2, size=count)
    nodes = pd.DataFrame(
        {
            "node_id": [f"s{number}" for number in range(count)],
            "class": np.where(random.random(count) < 0.6, np.array(["a", "b"])[kind], ""),
            "staff": np.where(random.random(count) < 0.1, np.nan, random.normal(4 * kind, 1)),
            "city": random.choice(cities, count),
            "opened": (pd.Timestamp("2020-01-01") + pd.to_timedelta(400 * kind, "D")).strftime(
                "%F"
            ),
            "sells": [" ".join(random.choice(WORDS[k], 4)) for k in kind],
            "vat": random.random(count) < 0.5,
        }
    )
    ends = random.integers(count, size=(4 * count, 2))
    ends = ends[(kind[ends[:, 0]] == kind[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])]
    edges = pd.DataFrame(nodes["node_id"].to_numpy()[ends], columns=["from", "to"])
    edges["weight"] = random.integers(1, 5, len(edges))
    nodes["truth"] = np.array(["a", "b"])[kind]
    return nodes, edges


def write(folder: str, nodes: pd.DataFrame, edges: pd.DataFrame) -> None:
    Path(folder).mkdir()
    nodes.drop(columns="truth").to_csv(f"{folder}/nodes.csv", index=False)
    edges.to_csv(f"{folder}/edges.csv", index=False)


def test_a_mixed_table_trains_and_predicts_rows_with_unseen_categories() -> None:
    nodes, edges = shops(200, 0, ("Rome", "Oslo"))
    new_nodes, new_edges = shops(80, 1, ("Rome", "Paris"))  # Paris is new, Oslo is missing
    write("old", nodes, edges)
    write("new", new_nodes, new_edges)
    options = ["--data.path", "old", "--data.train", "20", "--run_dir", "r", *QUIET]
    shown, errors = output_of(["fit", *options])
    assert "weighted edges from" in errors
    for text in (
        "old: `vat` number",
        "`staff` number, missing: median and a column",
        "`city` 2 categories, rarer ones joined",
        "`opened` date, in days",
        "`sells` text, TF-IDF of 6 words",
    ):
        assert text in errors
    assert "PAMT on old (200 nodes" in shown
    assert results("r")["data_notes"][1:] == [
        line.removeprefix("old: ") for line in errors.splitlines()[1:]
    ]
    shown, errors = output_of(["predict", "--ckpt_path", "r", "--data.path", "new"])
    found = [row["class"] for row in rows_of("predictions.csv")]
    assert np.mean(np.array(found) == new_nodes["truth"]) > 0.9
    new_nodes.drop(columns=["truth", "city"]).to_csv("new/nodes.csv", index=False)
    assert main(["predict", "--ckpt_path", "r", "--data.path", "new"]) == 2


def test_the_same_table_in_memory_gives_the_same_predictions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes, edges = shops(200, 0, ("Rome", "Oslo"))
    new_nodes, new_edges = shops(80, 1, ("Rome", "Paris"))
    graph = Graph.from_pandas(nodes.drop(columns="truth"), edges)
    assert "`sells` text" in capsys.readouterr().out
    clf = PAMTClassifier("PAMT", trainer={"max_epochs": 30}).fit(graph)
    new = Graph.from_pandas(new_nodes.drop(columns="truth"), new_edges)
    assert np.mean(clf.predict(new) == new_nodes["truth"].to_numpy()) > 0.9
    clf.save("clf.npz")
    again = PAMTClassifier.load("clf.npz")
    assert np.array_equal(again.predict_proba(new), clf.predict_proba(new))
    with pytest.raises(ValueError, match="column `city` is missing"):
        clf.predict(Graph.from_pandas(new_nodes.drop(columns=["truth", "city"]), new_edges))
