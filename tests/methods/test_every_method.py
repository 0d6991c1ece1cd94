"""For all methods: they learn, repeat, save, resume, and never see test labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import pamt_lightning
from pamt_lightning import Graph, GraphDataModule
from pamt_lightning.data.synthetic import SyntheticOptions
from pamt_lightning.errors import InputError
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import (
    Interrupt,
    OneGraph,
    assert_same_bits,
    quiet_trainer,
    seeded,
    small_data,
)

# Class and options, small enough to train quickly.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "GCN": ("GCNModule", {"hidden_dim": 16}),
    "GAT": ("GATModule", {"hidden_dim": 4, "num_heads": 4, "lr": 0.02}),
    "RobustGCN": ("RobustGCNModule", {}),
    "SGC": ("SGCModule", {}),
    "APPNP": ("APPNPModule", {"hidden_dim": 16}),
    "PTS": ("PTSModule", {"hidden_dim": 16}),
    "PTD": ("PTDModule", {"hidden_dim": 16}),
    "PTA": ("PTAModule", {"hidden_dim": 16}),
    "MLP": ("MLPModule", {"hidden_dim": 16}),
    "LabelPropagation": ("LabelPropagationModule", {}),
    "PAMT_r": ("PAMTModule", {"hidden_dim": 16, "pretrain_epochs": 0, "refresh_interval": 5}),
    "PAMT_0": ("PAMTModule", {"hidden_dim": 16, "refresh_interval": 0}),
    "PAMT_1": ("PAMTModule", {"hidden_dim": 16, "momentum": 0.0, "refresh_interval": 5}),
    "PAMT": ("PAMTModule", {"hidden_dim": 16, "refresh_interval": 5}),
    "PAMT_plus": ("PAMTPlusModule", {"hidden_dim": 16, "num_neighbours": 5}),
}
every_method = pytest.mark.parametrize("name", METHODS)


def new(name: str, data: GraphDataModule, **options: Any) -> NodeClassificationModule:
    class_name, own = METHODS[name]
    method = getattr(pamt_lightning, class_name)
    model: NodeClassificationModule = seeded(method, data, **{**own, **options})
    return model


def trained(
    name: str, data: GraphDataModule, folder: Path, epochs: int = 6
) -> NodeClassificationModule:
    model = new(name, data)
    quiet_trainer(folder, epochs).fit(model, datamodule=data)
    return model


def probabilities(model: NodeClassificationModule, data: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().predict_nodes(data.full_batch()).probs


def with_wrong_labels(*parts: str) -> GraphDataModule:
    data = small_data()
    for part in parts:
        index = getattr(data.graph, part)
        data.graph.y[index] = (data.graph.y[index] + 1) % data.num_classes
    return data


@every_method
def test_it_beats_the_majority_class_by_far(name: str, tmp_path: Path) -> None:
    clear = SyntheticOptions(
        num_nodes=240, num_classes=3, num_features=60, words_per_node=15.0, feature_signal=0.6
    )
    data = small_data(synthetic=clear, train=10)
    model, stopping = new(name, data), BestStopping(patience=100)
    trainer = quiet_trainer(tmp_path, 100, stopping)
    trainer.fit(model, datamodule=data)
    (metrics,) = trainer.test(model, datamodule=data, verbose=False)
    classes = data.graph.y[data.graph.test_index]
    share = float(torch.bincount(classes).max()) / len(classes)
    assert share < 0.45
    assert metrics["test_acc"] > share + 0.2
    assert set(metrics) >= {"test_acc", "test_loss", "test_f1_macro", "test_ece"}


@every_method
def test_neither_test_nor_validation_labels_reach_the_training(name: str, tmp_path: Path) -> None:
    clean, poisoned = small_data(), with_wrong_labels("test_index", "val_index")
    a, b = trained(name, clean, tmp_path), trained(name, poisoned, tmp_path)
    assert_same_bits(dict(a.named_parameters()), dict(b.named_parameters()))
    assert torch.equal(probabilities(a, clean), probabilities(b, poisoned))


@every_method
def test_test_labels_reach_neither_stopping_nor_a_choice(name: str, tmp_path: Path) -> None:
    kept = []
    for data in (small_data(), with_wrong_labels("test_index")):
        torch.manual_seed(0)
        model, stopping = new(name, data), BestStopping(patience=3)
        quiet_trainer(tmp_path, 25, stopping).fit(model, datamodule=data)
        kept.append((model, stopping.best_epoch, stopping.best_acc))
    (a, *stopped), (b, *otherwise) = kept
    assert stopped == otherwise
    assert_same_bits(a.state_dict(), b.state_dict())


@every_method
def test_a_run_its_prediction_and_its_checkpoint_repeat_to_the_bit(
    name: str, tmp_path: Path
) -> None:
    data = small_data()
    a, b = new(name, data), new(name, data)
    for model in (a, b):
        trainer = quiet_trainer(tmp_path, 6, BestStopping(dirpath=str(tmp_path)))
        trainer.fit(model, datamodule=data)
    assert_same_bits(a.state_dict(), b.state_dict())
    before = torch.get_rng_state()
    first = probabilities(a, data)
    assert torch.equal(first, probabilities(a, data))
    assert torch.equal(before, torch.get_rng_state())
    again = type(b).load_from_checkpoint(tmp_path / "best.ckpt", weights_only=True)
    assert torch.equal(probabilities(b, data), probabilities(again, data))


@every_method
def test_a_resumed_training_reaches_the_same_bits(name: str, tmp_path: Path) -> None:
    data, last = small_data(), tmp_path / "last.ckpt"

    def fit(resume_from: Path | None, *more: Interrupt) -> dict[str, torch.Tensor]:
        """The best state of a training of eight epochs."""
        stopping = BestStopping(dirpath=str(tmp_path), save_seconds=0.0)
        model = new(name, data)
        trainer = quiet_trainer(tmp_path, 8, stopping, *more)
        trainer.fit(model, datamodule=data, ckpt_path=resume_from, weights_only=True)
        last_weights = torch.load(last, weights_only=True)["state_dict"]
        return {**model.state_dict(), **{f"last.{k}": v for k, v in last_weights.items()}}

    whole = fit(None)
    last.unlink()
    if name != "LabelPropagation":  # it has one epoch
        with pytest.raises(InterruptedError):
            fit(None, Interrupt(4))
        assert_same_bits(fit(last), whole)


@every_method
def test_double_precision_reaches_every_number(name: str, tmp_path: Path) -> None:
    data = small_data()
    model = new(name, data)
    trainer = quiet_trainer(tmp_path, 2, precision="64-true")
    trainer.fit(model, datamodule=data)
    integers = {"inference_choice": torch.int64}
    for key, value in model.state_dict().items():
        assert value.dtype == integers.get(key, torch.float64), key
    assert data.full_batch().dtype == torch.float64


@every_method
def test_nodes_without_edges_or_attributes_get_a_defined_answer(name: str, tmp_path: Path) -> None:
    """Node 2 has edges but no attributes, 3 no edges, 4 neither; 5 and 6 no label reaches."""
    crow = torch.tensor([0, 1, 3, 4, 4, 4, 5, 6])
    col = torch.tensor([1, 0, 2, 1, 6, 5])
    adjacency = torch.sparse_csr_tensor(crow, col, torch.ones(6), (7, 7), check_invariants=True)
    x = torch.zeros(7, 4)
    x[[0, 1, 3, 5, 6], [0, 1, 2, 3, 3]] = 1.0
    labels = torch.tensor([0, 1, 1, -1, -1, -1, -1])
    graph = Graph(x, adjacency, labels, ("a", "b")).with_split(
        torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([], dtype=torch.int64)
    )
    data: Any = OneGraph(graph)
    model = new(name, data)
    quiet_trainer(tmp_path, 5).fit(model, datamodule=data)
    probs = probabilities(model, data)
    assert torch.isfinite(probs).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(7))


# Values that a class refuses, each by itself; tests/nn has those of the networks.
WRONG: dict[str, dict[str, Any]] = {
    "GCNModule": {"num_features": 0, "num_classes": 1, "hidden_dim": 0},
    "RobustGCNModule": {"kl_weight": -1.0},
    "MLPModule": {"lr": -1.0, "weight_decay": -0.1, "log_every_n_epochs": 0},
    "PTSModule": {"lr": float("nan"), "alpha": -0.5, "num_steps": -1, "stopping_loss": "l1"},
    "PTDModule": {"loss_weight": -0.5},
    "LabelPropagationModule": {"alpha": 1.5, "num_steps": -2},
    "PAMTPlusModule": {"num_directions": 0, "num_neighbours": -1, "pooling": "mean"},
    "PAMTModule": {
        **{"momentum": 1.0, "refresh_interval": -1, "representation": "tanh", "inference": "none"},
        **{"mask_floor": 2.0, "mask_temperature": 0.0, "mask_from": -1},
        **{"mask_normalization": "col", "pretrain_epochs": -1, "pretrain_weight_decay": -1.0},
    },
}


@pytest.mark.parametrize(
    ("class_name", "options", "words"),
    [
        *(
            (class_name, {option: value}, f"`{option}` must")
            for class_name, options in WRONG.items()
            for option, value in options.items()
        ),
        ("PAMTModule", {"mask_from": 5, "refresh_interval": 0}, "`mask_from`=5 needs"),
        *(
            ("PAMTModule", {"representation": "logits", **own}, "negative weights")
            for own in ({"mask_normalization": "sym"}, {"inference": "mask"}, {"inference": "auto"})
        ),
    ],
)
def test_a_wrong_argument_is_named(class_name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        getattr(pamt_lightning, class_name)(**{"num_features": 3, "num_classes": 2, **options})
