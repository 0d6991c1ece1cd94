from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pamt_lightning.cli.main import main
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.splits import stratified_folds
from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph
from pamt_lightning.training import folds as folds_module
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.folds import (
    estimate,
    fold_folders,
    run_folds,
    uses_all_labels,
    wilson_interval,
    with_default_split,
)
from pamt_lightning.training.run import run
from tests.small_run import failed, output_of, results, rows_of, write_own_graph

QUIET = ["--trainer.enable_progress_bar", "false"]


def config(method: str = "PAMT", **options: Any) -> RunConfig:
    return RunConfig.create(method, trainer={"max_epochs": 6}, data={"folds": 3}, **options)


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    y = small_graph.y.clone()
    y[torch.arange(300) % 3 > 0] = -1
    return replace(small_graph, y=y, train_index=None, val_index=None, test_index=None)


@pytest.mark.parametrize("method", ["PAMT", "PAMT_plus", "GCN", "LabelPropagation"])
def test_every_label_trains_all_models_but_one_and_is_tested_by_that_one(
    method: str, graph: Graph
) -> None:
    result = run_folds(config(method), graph=graph, quiet=True)
    assert len(result.runs) == 3
    data, labelled = result.datamodule, torch.nonzero(graph.y >= 0).flatten().tolist()
    validated = []
    for fold in (1, 2, 3):
        data.select_fold(fold)
        assert data.split is not None
        assert sorted([*data.split.train, *data.split.val]) == labelled
        assert len(data.split.test) == 0
        validated += data.split.val.tolist()
    assert sorted(validated) == labelled
    assert result.record["estimate"]["labels"] == 100
    assert result.probs.shape == (300, 4)
    assert result.probs.sum(1).numpy() == pytest.approx(np.ones(300), abs=1e-5)
    assert result.record["test_acc"] is None
    assert repr(result).startswith(f"FoldsResult({method} on graph, accuracy=0.")


@pytest.mark.parametrize("method", ["PAMT", "PAMT_plus", "LabelPropagation"])
def test_labels_that_nothing_can_predict_are_estimated_at_chance(method: str, graph: Graph) -> None:
    """The label of a node reaches neither its model nor the choice of the epoch."""
    random = torch.Generator().manual_seed(0)
    y = torch.where(graph.y < 0, -1, torch.randint(4, (300,), generator=random))
    result = run_folds(config(method), graph=replace(graph, y=y), quiet=True)
    assert result.interval[0] < 0.25 < result.interval[1]


def test_the_estimate_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    true = random.integers(4, size=200)
    predicted = np.where(random.random(200) < 0.7, true, random.integers(4, size=200))
    found = estimate(predicted, true, ("a", "b", "c", "d"))
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(true, predicted))
    assert found["balanced_accuracy"] == pytest.approx(
        metrics.balanced_accuracy_score(true, predicted)
    )
    rows = metrics.precision_recall_fscore_support(true, predicted)
    for name, row in zip(("precision", "recall", "f1", "support"), rows, strict=True):
        assert [each[name] for each in found["per_class"].values()] == pytest.approx(row.tolist())
    assert found["f1_macro"] == pytest.approx(rows[2].mean())
    nothing = estimate(np.zeros(0, int), np.zeros(0, int), ("a",))
    assert np.isnan(nothing["accuracy"])
    assert nothing["interval"] == (0.0, 1.0)


@pytest.mark.parametrize(("right", "total"), [(0, 10), (10, 10), (3, 7), (900, 1000)])
def test_the_interval_is_that_of_scipy(right: int, total: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(right, total).proportion_ci(method="wilson")
    assert wilson_interval(right, total) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_rare_classes_are_kept(graph: Graph) -> None:
    y = graph.y.clone()
    of_last = torch.nonzero(y == 3).flatten()
    y[of_last[1:]] = -1  # one label
    y[torch.nonzero(y == 2).flatten()[2:]] = -1  # two labels
    result = run_folds(config(), graph=replace(graph, y=y), quiet=True)
    assert list(result.record["labels"]["per_class"].values())[3] == 1
    per_class = list(result.record["estimate"]["per_class"].values())
    assert (per_class[3]["support"], per_class[2]["support"]) == (0, 2)
    few = torch.full_like(y, -1)
    few[of_last[:2]] = 3
    few[0] = int(graph.y[0])
    assert len(run_folds(config(), graph=replace(graph, y=few), quiet=True).runs) == 2
    few[of_last[1]] = -1
    with pytest.raises(InputError, match="no class has two labelled nodes"):
        run_folds(config(), graph=replace(graph, y=few), quiet=True)


def test_it_is_the_default_for_own_graphs_only() -> None:
    own = {"path": "mine"}

    def split(data: dict[str, Any], **trainer: Any) -> tuple[Any, Any, bool]:
        found = with_default_split(RunConfig("PAMT", {}, data, trainer=trainer))
        return found.data.get("split"), found.data.get("fold"), uses_all_labels(found)

    assert split(own) == ("all", None, True)
    assert split({"split": "all"}) == ("all", None, True)
    assert split({**own, "split": "all", "fold": 1}) == ("all", 1, False)
    assert split({**own, "fold": 2}) == ("all", 2, False)
    for data in ({}, {"dataset": "pubmed"}, {**own, "train": 20}, {**own, "split_path": "s"}):
        assert split(data) == (None, None, False)
    assert split({**own, "split": "random"}) == ("random", None, False)
    assert split(own, fast_dev_run=True) == (None, None, False)
    assert split(own, devices=2) == ("all", 1, False)  # one model
    for single in ("1", "auto", [0], "0,", None, -1):  # this machine has no GPU
        assert split(own, devices=single)[2] or torch.cuda.device_count() > 1
    for several in ("2", [0, 1], "0,1"):
        assert not split(own, devices=several)[2]
    assert split(own, num_nodes=4) == ("all", 1, False)


@pytest.mark.usefixtures("elsewhere")
def test_from_the_command_line_a_run_trains_resumes_and_predicts() -> None:
    write_own_graph(Path("mine"))
    options = ["--data.path", "mine", *QUIET, "--trainer.max_epochs", "3", "--data.folds", "3"]
    shown, errors = output_of(["fit", *options, "--run_dir", "r"])
    assert "30 of 30 nodes, all used: 3 models" in shown
    assert "estimated for nodes without a label, 95 % interval" in shown
    assert "model 3 of 3" in errors
    assert [path.name for path in fold_folders(Path("r"))] == ["fold_1", "fold_2", "fold_3"]
    record = results("r")
    assert record["folds"] == 3
    assert main(["predict", "--ckpt_path", "r"]) == 0
    rows = rows_of("predictions.csv")
    assert len(rows) == 30
    message = failed(["test", "--ckpt_path", "r"])
    assert "used every label for training" in message
    # A model that is lost is trained again, the others are not.
    before = Path("r/fold_1/best.ckpt").stat().st_mtime_ns
    for file in Path("r/fold_3").iterdir():
        if file.is_file():
            file.unlink()
    output_of(["fit", "--ckpt_path", "r", *QUIET])
    assert results("r")["estimate"] == record["estimate"]
    assert Path("r/fold_3/best.ckpt").is_file()
    assert before <= Path("r/fold_1/best.ckpt").stat().st_mtime_ns
    line = failed(["fit", *options, "--run_dir", "r"])
    assert "holds a run already" in line


def test_several_devices_and_sizes_of_parts_are_refused(graph: Graph) -> None:
    with pytest.raises(InputError, match=r"for several devices add --data\.fold 1"):
        run_folds(RunConfig.create("PAMT", trainer={"devices": 2}), graph=graph)
    with pytest.raises(InputError, match="`split`='all' uses every label: leave out `train`"):
        run_folds(RunConfig.create("PAMT", data={"train": 5}), graph=graph)


def test_a_fold_goes_with_the_split_all(graph: Graph) -> None:
    with pytest.raises(InputError, match="`fold` goes with `split`='all', got 'random'"):
        GraphDataModule(graph=graph, fold=1)
    with pytest.raises(InputError, match="use run_folds, or name a `fold`"):
        run(RunConfig.create("PAMT", data={"split": "all"}), graph=graph)


@pytest.mark.parametrize("method", ["PAMT_plus", "SGC", "PAMT"])
def test_a_finished_run_that_is_resumed_has_the_same_predictions(
    method: str, graph: Graph, tmp_path: Path
) -> None:
    """It is not trained again, so its modules must get the best state from the files."""
    first = run_folds(config(method), graph=graph, folder=tmp_path / "r", quiet=True)
    again = run_folds(config(method), graph=graph, folder=tmp_path / "r", resume="last", quiet=True)
    assert torch.equal(first.probs, again.probs)
    assert first.record["estimate"] == again.record["estimate"]


@pytest.mark.usefixtures("elsewhere")
def test_an_interrupted_run_names_its_folder_and_resumes_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_own_graph(Path("mine"))
    options = ["--data.path", "mine", *QUIET, "--trainer.max_epochs", "3", "--data.folds", "3"]
    output_of(["fit", *options, "--run_dir", "whole"])
    with monkeypatch.context() as patch:
        real = run

        def interrupted(part: RunConfig, **keywords: Any) -> Any:
            if part.data["fold"] == 2:
                raise KeyboardInterrupt
            return real(part, **keywords)

        patch.setattr(folds_module, "run", interrupted)
        _, errors = output_of(["fit", *options, "--run_dir", "r"], 130)
        assert "interrupted; resume with: pamt fit --ckpt_path r" in errors
    assert "is not finished" in failed(["predict", "--ckpt_path", "r"])
    output_of(["fit", "--ckpt_path", "r", *QUIET])
    assert results("r")["estimate"] == results("whole")["estimate"]


def test_label_propagation_predicts_from_all_labels(graph: Graph) -> None:
    result = run_folds(config("LabelPropagation"), graph=graph, quiet=True)
    known = torch.nonzero(graph.y >= 0).flatten()
    assert torch.equal(result.probs[known].argmax(1), graph.y[known])


def test_folds_have_two_nodes_or_more() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1, 1, -1])
    for asked, sizes in ((2, [4, 3]), (3, [3, 2, 2]), (10, [3, 2, 2])):
        assert [len(fold) for fold in stratified_folds(labels, asked, 0)] == sizes
    assert len(stratified_folds(np.array([0, 0, 1]), 5, 0)) == 2
