"""PAMT_plus: several learners, each of which sees the data in another way, and their pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss, one_hot

from pamt_lightning import InputError, PAMTPlusModule, PTAModule, run
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.functional import (
    adaptive_gamma,
    drop_nodes,
    fit_pool,
    fit_sharpness,
    rising_weight_decay,
)
from pamt_lightning.methods import pamt_plus
from pamt_lightning.methods.pamt_plus import VIEWS
from pamt_lightning.nn.mlp import ROW_ENERGY
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import (
    Interrupt,
    OneGraph,
    assert_same_bits,
    quiet_trainer,
    seeded,
    small_data,
)
from tests.small_run import results, small_config

SMALL = {"hidden_dim": 8, "num_directions": 12, "num_neighbours": 4}
WITHOUT_NEIGHBOURS = {name for name in VIEWS if name not in ("neighbours", "neighbour_hop")}
FAST: dict[str, Any] = {"lr": 0.5}  # so that the views have their best epochs at different times


def new(data: Any, **options: Any) -> PAMTPlusModule:
    model: PAMTPlusModule = seeded(PAMTPlusModule, data, **{**SMALL, **options})
    return model


def trained(
    data: Any, folder: Path, epochs: int, *callbacks: pl.Callback, **options: Any
) -> PAMTPlusModule:
    """A model after so many epochs; with the callback `BestStopping` its best state."""
    model = new(data, **options)
    quiet_trainer(folder, epochs, *callbacks).fit(model, datamodule=data)
    return model


def finished(data: Any, folder: Path, epochs: int = 8, **options: Any) -> PAMTPlusModule:
    """A trained model with its pool, ready to predict."""
    return trained(data, folder, epochs, BestStopping(dirpath=str(folder)), **options).eval()


def probabilities(model: PAMTPlusModule, data: Any) -> Tensor:
    with torch.no_grad():
        return model.eval().predict_nodes(data.full_batch()).probs


# The method in dense matrices -------------------------------------------------------------------


def normalized(weights: Tensor) -> Tensor:
    degree = weights.sum(1)
    root = torch.where(degree > 0, degree, 1.0).rsqrt()
    return root[:, None] * weights * root


def smooth(adj: Tensor, x: Tensor) -> Tensor:
    """The mean of the attributes and of their averages over one to four hops."""
    powers = [torch.matrix_power(adj, hops) for hops in range(5)]
    return torch.stack(powers).mean(0) @ x


def dense_graph(batch: GraphBatch, name: str) -> Tensor:
    adj = batch.adj_norm
    if name == "structure":
        return adj.to_dense()
    return normalized(adj.with_values(batch.edge_trust).to_dense())


def dense_inputs(model: PAMTPlusModule, batch: GraphBatch) -> dict[str, tuple[Tensor | None, Any]]:
    """Of each view the graph ``[N, N]``, if there is one, and the attributes of its MLP."""
    x = batch.graph.x.to_dense().to(batch.dtype)
    adj = dense_graph(batch, "structure")
    trust = batch.adj_norm.with_values(batch.edge_trust).to_dense()
    reduced = x @ model.directions
    found: dict[str, tuple[Tensor | None, Any]] = {
        "graph": (adj, x),
        "joined": (normalized(trust), reduced),
        "attributes": (None, reduced),
        "hops": (None, adj @ adj @ reduced),
        "consistent": (None, smooth(adj, reduced)),
        "trusted_consistent": (None, smooth(dense_graph(batch, "trusted"), reduced)),
    }
    if model.num_neighbours:
        similar = batch.neighbours(model.num_neighbours).to_dense().to(batch.dtype)
        neighbours = normalized(similar + torch.eye(len(similar), dtype=batch.dtype))
        found["joined"] = (normalized(torch.maximum(trust, similar)), reduced)
        found["neighbours"] = (neighbours, reduced)
        found["neighbour_hop"] = (None, neighbours @ reduced)
    return {name: (found[name][0], scale_of(model, name) * found[name][1]) for name in model.views}


def scale_of(model: PAMTPlusModule, name: str) -> float:
    return float(model.net_of(name).input.scale)


def forward(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    hidden = torch.relu(x @ weights["input.weight"] + weights["input.bias"])
    return hidden @ weights["output.weight"].t() + weights["output.bias"]


def weights_of(model: PAMTPlusModule, name: str) -> dict[str, Tensor]:
    return {key: value.detach().clone() for key, value in model.net_of(name).named_parameters()}


def kept_nodes(count: int, epoch: int, graph: str) -> list[Tensor]:
    """The nodes of two passes that are not dropped, as `DropsInTurn` chooses them."""
    first = epoch // 2 * 4 + (0 if graph == "structure" else 2)
    return [torch.arange(count) % 7 == (first + each) % 7 for each in range(2)]


class DropsInTurn:
    """Stands in for `drop_nodes`: the nodes of a pass follow from its number."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor, kept: Tensor, rate: float) -> Tensor:
        assert float(kept.float().mean()) == pytest.approx(0.3, abs=0.1)  # of 240 nodes
        chosen = torch.arange(len(x)) % 7 == self.calls % 7
        self.calls += 1
        return drop_nodes(x, chosen, rate)


def dense_consistent_loss(
    passes: list[Tensor], train: Tensor, target: Tensor, progress: float
) -> Any:
    """GRAND's loss, with the weight that it has after this share of the epochs."""
    probs = torch.stack(passes).softmax(2)
    mean = probs.detach().mean(0).square()
    agreement = (probs - mean / mean.sum(1, keepdim=True)).square().sum(2).mean()
    known = torch.stack([(target * log_softmax(each[train], 1)).sum() for each in passes]).mean()
    return -0.05 / target.shape[1] * known + 10 * min(1.0, 3 * progress) * agreement


def dense_predictions(model: PAMTPlusModule, batch: GraphBatch) -> dict[str, Tensor]:
    """Class probabilities of every node by each view."""
    found = {}
    for name, (adj, x) in dense_inputs(model, batch).items():
        start = probs = forward(weights_of(model, name), x).softmax(1)
        if adj is not None:
            for _ in range(model.num_steps):
                probs = (1 - model.alpha) * adj @ probs + model.alpha * start
            probs = probs / probs.sum(1, keepdim=True)
        found[name] = probs
    return found


def dense_training(model: PAMTPlusModule, data: Any, name: str, decay: list[float]) -> Any:
    """The weights of a view after an epoch with each of these weight decays, from the model's."""
    batch = data.full_batch()
    adj, x = dense_inputs(model, batch)[name]
    drops_over = VIEWS[name].drops_over
    weights = {key: value.requires_grad_() for key, value in weights_of(model, name).items()}
    first = weights["input.weight"]
    rest = [value for value in weights.values() if value is not first]
    lr = model.lr / 2 if drops_over else model.lr
    optimizer = torch.optim.Adam([{"params": [first]}, {"params": rest}], lr=lr)
    train, classes = batch.train_index, model.num_classes
    target = one_hot(batch.train_y, classes).to(batch.dtype)
    if drops_over:
        adj = dense_graph(batch, drops_over)
        x = scale_of(model, name) * batch.graph.x.to_dense() @ model.directions
        for epoch, each in enumerate(decay):
            if epoch % 2:
                continue
            optimizer.param_groups[0]["weight_decay"] = 5 * each
            passes = [
                forward(weights, smooth(adj, x * kept[:, None] / 0.3))
                for kept in kept_nodes(batch.num_nodes, epoch, drops_over)
            ]
            loss = dense_consistent_loss(passes, train, target, (epoch + 1) / len(decay))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return weights
    if adj is None:
        x = x[train]
    else:
        start = torch.zeros(batch.num_nodes, classes, dtype=batch.dtype)
        start[train] = target
        target = start
        for _ in range(model.num_steps):
            target = (1 - model.alpha) * adj @ target + model.alpha * start
            target[train] = start[train]
    for epoch, each in enumerate(decay):
        optimizer.param_groups[0]["weight_decay"] = each
        logits = forward(weights, x)
        confidence = 1.0 if adj is None else logits.detach().softmax(1) ** adaptive_gamma(epoch)
        loss = -model.loss_weight / classes * (confidence * target * log_softmax(logits, 1)).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights


# What the views learn ---------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 60])
@pytest.mark.parametrize(
    "options",
    [{"decay_epochs": 9}, {"weight_decay": 0.01}, {"weight_decay": (1e-3, 0.1), "alpha": 0.3}],
)
def test_the_view_of_the_graph_learns_as_pta_alone(
    options: dict[str, Any], batch_size: int | None, tmp_path: Path
) -> None:
    data = small_data(batch_size=batch_size)
    plus = trained(data, tmp_path, 9, **options)
    shared = {"weight_decay": (2e-4, 1e-2), "hidden_dim": 8, **options}
    pta = seeded(PTAModule, data, **shared)
    quiet_trainer(tmp_path, 9).fit(pta, datamodule=data)
    assert torch.equal(plus.soft_labels, pta.soft_labels)  # type: ignore[arg-type]
    assert_same_bits(plus.net.state_dict(), pta.net.state_dict())
    constant = trained(data, tmp_path, 9, **{**options, "weight_decay": 1e-3})
    assert not torch.equal(constant.net.input.weight, pta.net.input.weight)


@pytest.mark.parametrize(
    ("num_neighbours", "noise", "rising"),
    [(4, None, True), (0, None, True), (4, 0.6, True), (4, None, False)],
)
def test_each_view_learns_by_itself_from_its_own_graph_and_attributes(
    num_neighbours: int,
    noise: float | None,
    rising: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pamt_plus, "_HIDDEN_DROPOUT", 0.0)
    monkeypatch.setattr(pamt_plus, "drop_nodes", DropsInTurn())
    data = small_data(structure_noise=noise)
    options: dict[str, Any] = {"num_neighbours": num_neighbours, "lr": 0.02}
    options["weight_decay"] = (2e-4, 1e-2) if rising else 0.05
    before = new(data, **options)
    model = trained(data, tmp_path, 6, **options)
    before.directions = model.directions
    for name in model.views:
        before.net_of(name).input.scale = model.net_of(name).input.scale
    decay = [rising_weight_decay(epoch, 2e-4, 1e-2, 6) if rising else 0.05 for epoch in range(6)]
    for name in model.views:
        expected = dense_training(before, data, name, decay)
        for key, value in weights_of(model, name).items():
            torch.testing.assert_close(value, expected[key], rtol=1e-3, atol=1e-4)


def test_views_that_drop_nodes_have_a_dropout_of_their_own_in_the_hidden_layer() -> None:
    model = new(small_data(), dropout=0.25)
    for name in model.views:
        net = model.net_of(name)
        expected = (0.5, 0.0) if VIEWS[name].drops_over else (0.25, 0.25)
        assert (net.dropout, net.input.dropout) == expected, name


def test_all_attributes_that_a_network_receives_have_the_same_scale(tmp_path: Path) -> None:
    data = small_data()
    model = trained(data, tmp_path, 1)
    for _, x in dense_inputs(model, data.full_batch()).values():
        assert float(x.square().sum(1).mean()) == pytest.approx(ROW_ENERGY, rel=1e-4)


def test_attributes_are_reduced_to_the_directions_in_which_they_are_largest(
    tmp_path: Path,
) -> None:
    data = small_data()
    model = trained(data, tmp_path, 1, num_directions=1)
    _, _, right = torch.linalg.svd(data.graph.x.to_dense(), full_matrices=False)
    cosine = torch.nn.functional.cosine_similarity(model.directions[:, 0], right[0], dim=0)
    assert abs(float(cosine)) > 0.99
    assert new(data, num_directions=99).directions.shape == (60, 60)  # there are no more


def test_without_neighbours_their_views_are_left_out_and_none_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GraphBatch, "neighbours", lambda *_: pytest.fail("looked for"))
    data = small_data()
    model = finished(data, tmp_path, num_neighbours=0)
    assert set(model.views) == WITHOUT_NEIGHBOURS
    assert set(model.report()["views"]) == WITHOUT_NEIGHBOURS
    assert torch.isfinite(probabilities(model, data)).all()


@pytest.mark.parametrize("batch_size", [240, 1000])
def test_one_batch_of_all_nodes_is_the_whole_graph(batch_size: int, tmp_path: Path) -> None:
    whole = finished(small_data(), tmp_path)
    batched = finished(small_data(batch_size=batch_size), tmp_path)
    torch.testing.assert_close(batched.state_dict(), whole.state_dict())


class Gradients(pl.Callback):
    """In the last epoch, the gradients of the whole graph and of four batches of its nodes."""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.current_epoch + 1 < (trainer.max_epochs or 0):
            return
        batch = pl_module.fit_batch
        order = torch.randperm(batch.num_nodes)
        parts = [batch.at(nodes.sort().values) for nodes in order.chunk(4)]
        self.whole, *self.parts = [self.of(pl_module, each) for each in (batch, *parts)]

    def of(self, model: Any, batch: GraphBatch) -> list[Tensor]:
        with torch.enable_grad():
            loss = model.training_loss(batch)
        return list(torch.autograd.grad(loss, list(model.parameters())))


def test_gradients_of_batches_are_on_average_that_of_the_whole_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pamt_plus, "_HIDDEN_DROPOUT", 0.0)
    found = Gradients()
    trained(small_data(), tmp_path, 3, found)
    assert all(float(gradient.abs().max()) > 0 for gradient in found.whole)
    for expected, *parts in zip(found.whole, *found.parts, strict=True):
        torch.testing.assert_close(torch.stack(parts).mean(0), expected, rtol=1e-3, atol=1e-6)


# Best epochs ------------------------------------------------------------------------------------


class Epochs(pl.Callback):
    """Notes after each epoch what each view reaches on the validation nodes, and its weights."""

    def __init__(self) -> None:
        self.scores: list[dict[str, tuple[float, float]]] = []
        self.weights: list[dict[str, dict[str, Tensor]]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        batch = pl_module.fit_batch
        index, y = batch.val_index, batch.graph.y[batch.val_index]
        scores = {}
        for name, probs in dense_predictions(pl_module, batch).items():
            right = (probs[index].argmax(1) == y).float().mean()
            scores[name] = (float(right), -float(nll_loss(probs[index].log(), y)))
        self.scores.append(scores)
        self.weights.append({name: weights_of(pl_module, name) for name in pl_module.views})


@pytest.mark.parametrize("epochs", [1, 2, 15, 16])
def test_each_view_keeps_the_weights_of_its_own_best_epoch(epochs: int, tmp_path: Path) -> None:
    data, noted = small_data(), Epochs()
    model = trained(data, tmp_path, epochs, noted, BestStopping(dirpath=str(tmp_path)), **FAST)
    step = pamt_plus._JUDGE_EVERY
    judged = sorted({1, *range(step, epochs + 1, step), epochs})  # the first and the last, too
    best = {}
    for place, name in enumerate(model.views):
        epoch = best[name] = max(judged, key=lambda each: noted.scores[each - 1][name])
        assert_same_bits(weights_of(model, name), noted.weights[epoch - 1][name])
        acc, loss = noted.scores[epoch - 1][name]
        expected = torch.tensor([acc, -loss, epoch])
        torch.testing.assert_close(model.best[place], expected, rtol=1e-4, atol=1e-5)
        assert model.report()["views"][name]["val_acc"] == pytest.approx(acc)
        assert model.report()["views"][name]["best_epoch"] == epoch
    assert len(set(best.values())) > 2 or epochs < 3
    again = PAMTPlusModule.load_from_checkpoint(tmp_path / "best.ckpt", weights_only=True)
    assert_same_bits(again.state_dict(), model.state_dict())


@pytest.mark.parametrize("weight_decay", [0.01, (1e-3, 1e-2)])
def test_the_training_takes_all_its_epochs_and_no_more(weight_decay: Any, tmp_path: Path) -> None:
    options = {"decay_epochs": 8, "weight_decay": weight_decay, **FAST}
    model = trained(small_data(), tmp_path, 20, BestStopping(patience=1), **options)
    assert model.trainer.current_epoch == 8
    alone = trained(small_data(), tmp_path, 20, **options)
    assert alone.trainer.current_epoch == 8


class SanityCheck(pl.Callback):
    """Notes what the views have reached when the untrained networks were validated."""

    def on_sanity_check_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.best = pl_module.best.clone()


def test_a_sanity_check_of_the_validation_changes_nothing(tmp_path: Path) -> None:
    data, check = small_data(), SanityCheck()
    stopping, model = BestStopping(dirpath=str(tmp_path)), new(data)
    trainer = quiet_trainer(tmp_path, 8, check, stopping, num_sanity_val_steps=1)
    trainer.fit(model, datamodule=data)
    assert torch.equal(check.best, new(data).best)
    assert_same_bits(model.state_dict(), finished(data, tmp_path).state_dict())


# The pool ---------------------------------------------------------------------------------------


def log_probs_of(views: dict[str, Tensor]) -> Tensor:
    return torch.stack([probs.double().clamp(min=1e-7).log() for probs in views.values()])


@pytest.mark.parametrize("batch_size", [None, 50])
@pytest.mark.parametrize("num_neighbours", [4, 0])
@pytest.mark.parametrize("noise", [None, 0.6])
def test_the_prediction_pools_those_of_the_views(
    noise: float | None, num_neighbours: int, batch_size: int | None, tmp_path: Path
) -> None:
    data = small_data(structure_noise=noise, batch_size=batch_size)
    model = finished(data, tmp_path, num_neighbours=num_neighbours, **FAST)
    other = small_data(structure_noise=0.3)  # trust and neighbours are those of the graph at hand
    for each in (data, other):
        views = dense_predictions(model, each.full_batch())
        log_probs = log_probs_of(views)
        sharpness, weights = model.sharpness.double(), model.pool_weights.double()
        scores = torch.einsum("v,vnc->nc", weights * sharpness, log_probs)
        equal = torch.einsum("v,vnc->nc", sharpness / len(views), log_probs)
        with torch.no_grad():
            found = model.predict_nodes(each.full_batch())
        torch.testing.assert_close(found.probs, scores.softmax(1).float(), rtol=1e-3, atol=1e-5)
        assert set(found.parts) == {*views, "equal_weights"}
        for name, probs in views.items():
            torch.testing.assert_close(found.parts[name], probs.argmax(1))
        torch.testing.assert_close(found.parts["equal_weights"], equal.argmax(1))


@pytest.mark.parametrize("pooling", ["fitted", "equal"])
def test_sharpness_and_weights_are_fitted_to_the_validation_nodes(
    pooling: str, tmp_path: Path
) -> None:
    data = small_data(structure_noise=0.6)
    model = finished(data, tmp_path, pooling=pooling, **FAST)
    batch = data.full_batch()
    y, index = batch.graph.y[batch.val_index], batch.val_index
    log_probs = log_probs_of(dense_predictions(model, batch))[:, index]
    sharpness = torch.tensor([fit_sharpness(each, y) for each in log_probs])
    torch.testing.assert_close(model.sharpness, sharpness, rtol=1e-3, atol=1e-3)
    count = len(model.views)
    weights = torch.full((count,), 1 / count)
    if pooling == "fitted":
        tempered = (model.sharpness[:, None, None] * log_probs).log_softmax(2)
        weights = fit_pool(tempered, y, 50.0).float()
        assert float(weights.max() - weights.min()) > 0.005
        torch.testing.assert_close(model.pool_weights, weights, rtol=1e-3, atol=1e-4)
    assert pooling == "fitted" or torch.equal(model.pool_weights, weights)
    report = model.report()
    shown = [view["weight"] for view in report["views"].values()]
    assert shown == pytest.approx(model.pool_weights.tolist(), abs=1e-4)
    pooled = probabilities(model, data)[index]
    assert report["val_acc"] == pytest.approx(float((pooled.argmax(1) == y).float().mean()))
    assert report["val_loss"] == pytest.approx(float(nll_loss(pooled.log(), y)), rel=1e-5)


class LateImprovement(pl.Callback):
    """Changes the kept weights of a view when the stopping has seen its last epoch."""

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        kept = pl_module._kept["hops"]
        kept["output.bias"] = kept["output.bias"] + torch.tensor([1.0, 0.0, 0.0])


def test_the_pool_is_that_of_the_weights_that_are_kept(tmp_path: Path) -> None:
    data = small_data()
    stopping = BestStopping(dirpath=str(tmp_path))
    model = trained(data, tmp_path, 4, LateImprovement(), stopping)
    index = data.full_batch().val_index
    pooled = probabilities(model, data)[index].log()
    loss = float(nll_loss(pooled, data.graph.y[index]))
    assert model.report()["val_loss"] == pytest.approx(loss, rel=1e-5)


def test_the_accuracy_of_each_view_is_reported(tmp_path: Path) -> None:
    data = small_data()
    model = finished(data, tmp_path)
    (metrics,) = quiet_trainer(tmp_path, 1).test(model, datamodule=data, verbose=False)
    batch = data.full_batch()
    index = batch.graph.test_index
    assert index is not None
    for name, probs in dense_predictions(model, batch).items():
        right = (probs.argmax(1) == batch.graph.y)[index].float().mean()
        assert metrics[f"test_acc_{name}"] == pytest.approx(float(right))
    assert "test_acc_equal_weights" in metrics


def test_a_second_training_forgets_the_first(tmp_path: Path) -> None:
    first, second = small_data(), small_data(structure_noise=0.6, split_seed=3)
    model = new(first)
    initial = {key: value.clone() for key, value in model.state_dict().items()}
    stopping = BestStopping(dirpath=str(tmp_path))
    quiet_trainer(tmp_path, 6, stopping).fit(model, datamodule=first)
    kept = {"directions", "best", "pool_weights", "sharpness", "pool_metrics"}
    model.load_state_dict(
        {k: model.state_dict()[k] if k in kept else value for k, value in initial.items()}
    )
    stopping = BestStopping(dirpath=str(tmp_path))
    quiet_trainer(tmp_path, 6, stopping).fit(model, datamodule=second)
    assert_same_bits(model.state_dict(), finished(second, tmp_path, 6).state_dict())


def test_an_interrupted_training_leaves_no_inputs_behind(tmp_path: Path) -> None:
    data, other = small_data(), small_data(structure_noise=0.6)
    model = new(data)
    with pytest.raises(InterruptedError):
        quiet_trainer(tmp_path, 6, Interrupt(2)).fit(model, datamodule=data)
    (found,) = quiet_trainer(tmp_path, 1).test(model, datamodule=other, verbose=False)
    same = new(other)
    same.load_state_dict(model.state_dict())
    (expected,) = quiet_trainer(tmp_path, 1).test(same, datamodule=other, verbose=False)
    assert found == expected


def test_before_the_pool_is_fitted_there_is_nothing_to_report() -> None:
    assert new(small_data()).report() == {}


# What must not matter ---------------------------------------------------------------------------


def test_validation_labels_reach_the_choice_of_epochs_and_the_pool_alone(tmp_path: Path) -> None:
    states = []
    for number in range(2):
        data, folder = small_data(), tmp_path / str(number)
        if number:
            index = data.graph.val_index
            assert index is not None
            data.graph.y[index] = data.graph.y[index.roll(7)]
        model = finished(data, folder, **FAST)
        last = torch.load(folder / "last.ckpt", weights_only=True)
        states.append((model, last["state_dict"], last["optimizer_states"][0]["state"]))
    (one, last_one, adam_one), (other, last_other, adam_other) = states
    trained_alike = set(last_one) - {"best"}
    assert_same_bits(
        *({key: last[key] for key in trained_alike} for last in (last_one, last_other))
    )
    for number, moments in adam_one.items():
        assert_same_bits(moments, adam_other[number])
    assert not torch.equal(one.best, other.best)
    assert not torch.equal(one.pool_weights, other.pool_weights)


def test_attributes_may_come_in_any_unit(tmp_path: Path) -> None:
    graph = small_data().graph
    found = []
    for unit in (1.0, 1e-4, 300.0):
        data = OneGraph(replace(graph, x=unit * graph.x))
        found.append(probabilities(finished(data, tmp_path), data))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found[2], found[0], rtol=1e-3, atol=1e-4)


def test_the_pool_of_a_training_in_double_precision_is_double(tmp_path: Path) -> None:
    data = small_data()
    model = new(data)
    stopping = BestStopping(dirpath=str(tmp_path))
    quiet_trainer(tmp_path, 4, stopping, precision="64-true").fit(model, datamodule=data)
    assert probabilities(model, data).dtype == torch.float64
    for numbers in (model.sharpness, model.pool_weights, model.best[:, 1]):
        assert not torch.equal(numbers, numbers.float().double())


# Interruptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 4, 10])
def test_an_interrupted_training_resumes_with_the_best_weights_of_each_view(
    after: int, tmp_path: Path
) -> None:
    data, options = small_data(), {**FAST, "dropout": 0.3}
    whole = finished(data, tmp_path / "whole", 12, **options)
    stopping = BestStopping(dirpath=str(tmp_path / "part"), save_seconds=0.0)
    with pytest.raises(InterruptedError):
        trained(data, tmp_path, 12, stopping, Interrupt(after), **options)
    resumed, last = new(data, **options), tmp_path / "part" / "last.ckpt"
    trainer = quiet_trainer(tmp_path, 12, BestStopping(dirpath=str(tmp_path / "part")))
    trainer.fit(resumed, datamodule=data, ckpt_path=last, weights_only=True)
    assert_same_bits(resumed.state_dict(), whole.state_dict())
    assert resumed.report() == whole.report()
    assert min(view["best_epoch"] for view in whole.report()["views"].values()) < 10


@pytest.mark.parametrize("decay_epochs", [3, 600])
def test_a_finished_run_that_is_resumed_trains_no_more(
    decay_epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config("PAMT_plus", decay_epochs=decay_epochs, hidden_dim=8)
    before = run(config, folder=tmp_path / "r", quiet=True)
    record = results(tmp_path / "r")
    assert record["epochs"] == min(decay_epochs, 4)
    monkeypatch.setattr(PAMTPlusModule, "training_step", lambda *_: pytest.fail("trains"))
    after = run(config, folder=tmp_path / "r", resume="last", quiet=True)
    assert_same_bits(after.model.state_dict(), before.model.state_dict())
    for key in ("epochs", "best_epoch", "val_acc", "val_loss", "test_metrics", "views"):
        assert results(tmp_path / "r")[key] == record[key], key


def test_the_soft_stopping_loss_is_refused() -> None:
    with pytest.raises(InputError, match="stopping_loss"):
        PAMTPlusModule(3, 2, stopping_loss="soft")


# Consistent views -------------------------------------------------------------------------------


class Rows(pl.Callback):
    """Notes the rows that the network of a consistent view receives in steps."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        net = pl_module.net_of("consistent")
        net.register_forward_hook(
            lambda module, inputs, _: self.inputs.append(inputs[0]) if module.training else None
        )


@pytest.mark.parametrize(("most", "expected"), [(4096, 240), (50, 50)])
def test_a_step_compares_so_many_nodes_at_most(
    most: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pamt_plus, "_MOST_NODES", most)
    seen = Rows()
    trained(small_data(), tmp_path, 4, seen)
    # Two passes in every second epoch.
    assert [len(rows) for rows in seen.inputs] == 4 * [15 + expected]


def test_the_nodes_that_are_compared_differ_between_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pamt_plus, "_MOST_NODES", 50)
    monkeypatch.setattr(pamt_plus, "drop_nodes", lambda x, kept, rate: x)
    seen = Rows()
    trained(small_data(), tmp_path, 4, seen)
    first, same, later, _ = seen.inputs
    assert torch.equal(first, same)  # without dropped nodes both passes see the same
    assert not torch.equal(first, later)


def test_consistent_views_learn_to_agree_with_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = {}
    for weight in (0.0, 10.0):
        monkeypatch.setattr(pamt_plus, "_CONSISTENCY", weight)
        data = small_data()
        folder = tmp_path / str(weight)
        model = trained(data, folder, 200, KeepInputs(), lr=0.05).eval()
        for name in model.consistent:
            torch.manual_seed(0)
            with torch.no_grad():
                one, other = (model.net_of(name)(x).softmax(1) for x in model.random_inputs(name))
            apart[name, weight] = float((one.argmax(1) != other.argmax(1)).float().mean())
    for name in ("consistent", "trusted_consistent"):
        assert apart[name, 10.0] < 0.7 * apart[name, 0.0]


class KeepInputs(pl.Callback):
    """Keeps the inputs of a training after its end."""

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.inputs = pl_module.fit_inputs

    def teardown(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        pl_module._fit = self.inputs
