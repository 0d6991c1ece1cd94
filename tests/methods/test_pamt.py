from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor

from pamt_lightning import Graph, PAMTModule
from pamt_lightning.errors import InputError
from pamt_lightning.methods.base import Prediction
from pamt_lightning.methods.pamt import INFERENCES
from pamt_lightning.nn.mlp import ROW_ENERGY
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import assert_same_bits, quiet_trainer, small_data, small_model


class Refreshes(pl.Callback):
    """Notes the epochs t (counted from 1) in which the soft labels changed."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self._seen: Tensor | None = None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        if pl_module.soft_labels is not self._seen:
            self.epochs.append(trainer.current_epoch + 1)
            self._seen = pl_module.soft_labels


@pytest.mark.parametrize(
    ("start", "interval", "expected"),
    [
        *((0, 3, [1, 3, 6]), (0, 1, [1, 2, 3, 4, 5, 6, 7]), (0, 0, [1])),
        *((4, 3, [1, 4, 7]), (1, 4, [1, 5]), (9, 1, [1])),
    ],
)
def test_soft_labels_are_refreshed_every_t_u_epochs(
    tmp_path: Path, start: int, interval: int, expected: Sequence[int]
) -> None:
    data, watch = small_data(), Refreshes()
    model = small_model(data, refresh_interval=interval, mask_from=start)
    quiet_trainer(tmp_path, 7, watch, enable_checkpointing=False).fit(model, datamodule=data)
    assert watch.epochs == expected  # epoch 1 sees the labels made before training


def dense_norm(graph: Graph) -> Tensor:
    """Â as a dense matrix."""
    a = graph.adjacency.to_dense().double() + torch.eye(graph.num_nodes, dtype=torch.float64)
    scale = a.sum(1).rsqrt()
    return scale[:, None] * a * scale[None, :]


def dense_pamt(model: PAMTModule, graph: Graph, epochs: int) -> dict[str, Tensor]:
    """The algorithm of the paper written down with dense matrices and the full H Hᵀ."""
    assert graph.train_index is not None
    assert isinstance(model.weight_decay, float)
    x, y, train = graph.x.to_dense().double(), graph.y, graph.train_index
    x = x * (ROW_ENERGY / x.square().sum(1).mean()).sqrt()  # so that no unit matters
    adj_norm = dense_norm(graph)
    w1, b1, w2, b2 = (p.detach().clone().double().requires_grad_() for p in model.parameters())

    def logits(rows: Tensor) -> Tensor:
        return torch.relu(rows @ w1 + b1) @ w2.T + b2

    def soft_labels() -> Tensor:
        with torch.no_grad():
            h = torch.softmax(logits(x), 1)
            if model.representation == "cosine":
                h = h / h.norm(dim=1, keepdim=True)
            y0 = torch.zeros(len(y), graph.num_classes, dtype=torch.float64)
            y0[train, y[train]] = 1.0
            soft = y0
            for _ in range(model.num_steps):
                soft = (1 - model.alpha) * (adj_norm * (h @ h.T)) @ soft + model.alpha * y0
                soft[train] = y0[train]
            return soft

    def step(optimizer: torch.optim.Optimizer, loss: Tensor, decay: float) -> None:
        optimizer.zero_grad()
        (loss + decay / 2 * w1.square().sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    optimizer = torch.optim.Adam([w1, b1, w2, b2], lr=model.lr)
    for _ in range(model.pretrain_epochs):
        loss = torch.nn.functional.cross_entropy(logits(x[train]), y[train])
        step(optimizer, loss, model.pretrain_weight_decay)
    optimizer, soft = torch.optim.Adam([w1, b1, w2, b2], lr=model.lr), soft_labels()
    for t in range(1, epochs + 1):
        if t % model.refresh_interval == 0:
            soft = model.momentum * soft + (1 - model.momentum) * soft_labels()
        loss = -(soft * torch.log_softmax(logits(x), 1)).sum() / graph.num_classes
        step(optimizer, model.loss_weight * loss, model.weight_decay)
    return dict(zip(dict(model.named_parameters()), (w1, b1, w2, b2), strict=True))


@pytest.mark.parametrize("representation", ["softmax", "cosine"])
def test_training_is_the_papers_algorithm_in_dense_form(
    tmp_path: Path, representation: str
) -> None:
    data = small_data()
    options = {"dropout": 0.0, "num_steps": 4, "momentum": 0.3, "mask_normalization": "none"}
    model = small_model(data, representation=representation, weight_decay=0.025, **options)
    expected = dense_pamt(model, data.graph, epochs=8)
    quiet_trainer(tmp_path, 8, precision="64-true").fit(model, datamodule=data)
    for name, value in model.named_parameters():
        assert value.dtype == torch.float64
        # The features are float32; what is left is the order of the sums.
        torch.testing.assert_close(value, expected[name].detach(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("way", INFERENCES)
@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_a_prediction_equals_its_dense_form(way: str, floor: float) -> None:
    data = small_data()
    options = {"mask_floor": floor, "mask_temperature": 2.0, "num_steps": 3, "alpha": 0.2}
    model = small_model(data, inference=way, representation="cosine", **options).eval()
    prediction = model.predict_nodes(data.full_batch())
    assert prediction.logits is not None
    logits = prediction.logits.double()
    adj = dense_norm(data.graph)
    h = torch.softmax(logits / 2.0, 1)
    h = h / h.norm(dim=1, keepdim=True)
    if way == "mask":
        adj = adj * (floor + (1 - floor) * (h @ h.T))
    start = probs = torch.softmax(logits, 1)
    for _ in range(0 if way == "network" else 3):
        probs = 0.8 * adj @ probs + 0.2 * start
    probs = probs / probs.sum(1, keepdim=True)
    torch.testing.assert_close(prediction.probs.double(), probs, rtol=1e-5, atol=1e-6)


def test_the_similarity_of_edges_equals_its_dense_form() -> None:
    data = small_data()
    model = small_model(data, representation="softmax", mask_temperature=0.5).train()
    similarity = model.mask_similarity(data.full_batch())
    assert model.net.training  # and yet without dropout
    model.eval()
    h = torch.softmax(model.net(data.graph.x) / 0.5, 1)
    rows, cols = data.graph.adjacency.to_dense().nonzero(as_tuple=True)
    torch.testing.assert_close(similarity, (h @ h.T)[rows, cols].detach())


@pytest.mark.parametrize(
    ("right", "sure", "expected"),
    [
        ((0.5, 0.8, 0.6), (0.4, 0.99, 0.4), 1),  # for all its loss, which is the worst
        ((0.5, 0.6, 0.8), (0.9, 0.9, 0.9), 2),
        ((0.9, 0.8, 0.8), (0.4, 0.9, 0.9), 0),
        ((0.8, 0.8, 0.8), (0.5, 0.8, 0.7), 1),  # equally right: the smallest loss
        ((0.8, 0.8, 0.8), (0.5, 0.6, 0.7), 2),
        ((0.8, 0.8, 0.8), (0.8, 0.8, 0.8), 0),  # the first of equals
    ],
)
def test_the_best_on_the_validation_nodes_is_chosen(
    right: Sequence[float], sure: Sequence[float], expected: int
) -> None:
    data = small_data()
    model, index = small_model(data, inference="auto"), data.graph.val_index
    assert index is not None
    candidates = []
    for number, (share, probability) in enumerate(zip(right, sure, strict=True)):
        answer, wrong = data.graph.y.clone(), index[int(share * len(index)) :]
        answer[wrong] = (answer[wrong] + 1) % 3
        probs = torch.full((240, 3), (1 - probability) / 2)
        candidates.append((number, Prediction(probs.scatter(1, answer[:, None], probability))))
    assert model.choose(data.full_batch(), candidates) is candidates[expected][1]
    assert model.chosen == INFERENCES[expected]


@torch.no_grad()
@pytest.mark.parametrize("way", INFERENCES)
def test_auto_looks_at_the_labels_of_the_validation_nodes_alone(way: str) -> None:
    data = small_data()
    model = small_model(data, inference="auto", mask_temperature=0.5, pretrain_epochs=50)
    graph, batch = data.graph, data.full_batch()
    with torch.enable_grad():
        model.pretrain(batch)
    model.eval()
    answers = {
        name: model.predict_by(name, model.net(batch.x), batch).argmax(1) for name in INFERENCES
    }
    index = graph.val_index
    assert index is not None
    assert len({tuple(answer[index].tolist()) for answer in answers.values()}) == 3
    for other in INFERENCES:
        graph.y[:] = answers[other]  # the truth about all others
        graph.y[index] = answers[way][index]
        chosen = model.predict_for_validation(batch)
        assert model.chosen == way
        assert torch.equal(chosen.probs.argmax(1), answers[way])
        assert torch.equal(model.predict_nodes(batch).probs, chosen.probs)


class Fickle(PAMTModule):
    """In the third of five epochs, and only then, its prediction over the mask is all right."""

    def predict_by(self, inference: str, logits: Tensor, batch: Any) -> Tensor:
        probs = super().predict_by(inference, logits, batch)
        if self.trainer.state.fn == "fit" and self.current_epoch == 2 and inference == "mask":
            return torch.nn.functional.one_hot(batch.graph.y, 3).to(probs.dtype)
        return probs * 0 + torch.tensor([0.5, 0.3, 0.2])


def test_the_choice_is_kept_with_the_best_state_and_comes_back(tmp_path: Path) -> None:
    data = small_data()
    pl.seed_everything(0, verbose=False)
    model = Fickle(data.num_features, 3, hidden_dim=8, pretrain_epochs=5, inference="auto")
    stopping = BestStopping(dirpath=str(tmp_path))
    quiet_trainer(tmp_path, 5, stopping).fit(model, datamodule=data)
    assert stopping.best_epoch == 3
    assert INFERENCES[int(model.inference_choice)] == "mask"
    last = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    assert INFERENCES[int(last["inference_choice"])] == "structure"
    again = PAMTModule.load_from_checkpoint(tmp_path / "best.ckpt", weights_only=True).eval()
    batch = data.full_batch()
    by_mask = again.predict_by("mask", again.net(batch.x), batch)
    assert torch.equal(again.predict_nodes(batch).probs, by_mask)
    quiet_trainer(tmp_path, 1).validate(again, datamodule=data, verbose=False)
    assert INFERENCES[int(again.inference_choice)] == "mask"  # only a training chooses


def test_only_auto_leaves_a_choice_in_the_checkpoint() -> None:
    data = small_data()
    assert "inference_choice" in small_model(data, inference="auto").state_dict()
    for way in INFERENCES:
        assert "inference_choice" not in small_model(data, inference=way).state_dict()


def test_how_it_predicts_does_not_reach_the_weights(tmp_path: Path) -> None:
    data = small_data()
    first, *others = (small_model(data, inference=way) for way in (*INFERENCES, "auto"))
    quiet_trainer(tmp_path, 7).fit(first, datamodule=data)
    for other in others:
        quiet_trainer(tmp_path, 7).fit(other, datamodule=data)
        assert_same_bits(first.net.state_dict(), other.net.state_dict())


def test_divergence_is_named(tmp_path: Path) -> None:
    data = small_data()
    model = small_model(data, lr=1e30)
    with pytest.raises(InputError, match=r"Training diverged.*Lower"):
        quiet_trainer(tmp_path, 5, BestStopping()).fit(model, datamodule=data)


def test_the_first_mask_is_that_of_the_network_so_far() -> None:
    data = small_data()
    model = small_model(data, mask_from=3, refresh_interval=2, momentum=0.0)
    batch = data.full_batch()
    model.refresh(batch, epoch=2)
    assert model.soft_labels is not None
    assert torch.equal(model.soft_labels, model.propagated_labels(batch.adj_norm, batch))
    model.refresh(batch, epoch=3)
    masked = model.propagated_labels(model.masked_adjacency(batch), batch)
    assert torch.equal(model.soft_labels, masked)
    assert not torch.equal(masked, model.propagated_labels(batch.adj_norm, batch))


def test_a_start_without_mask_takes_the_place_of_pretraining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(PAMTModule, "pretrain", lambda self, data: calls.append(1))
    for start, expected in ((0, 1), (2, 1)):
        data = small_data()
        model = small_model(data, mask_from=start, refresh_interval=2)
        quiet_trainer(tmp_path / str(start), 1).fit(model, datamodule=data)
        assert len(calls) == expected
