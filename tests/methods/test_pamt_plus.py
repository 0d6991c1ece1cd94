"""PAMT_plus: three learners, one of which starts without mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from pamt_lightning import GraphDataModule, PAMTModule, PAMTPlusModule, PTAModule
from pamt_lightning.functional import (
    mask_adjacency,
    mask_representation,
    trust_edges,
)
from pamt_lightning.methods.pamt_plus import CHOICES
from pamt_lightning.nn import MLP
from pamt_lightning.training.stopping import BestStopping
from tests.matrices import operator
from tests.methods.helpers import quiet_trainer, seeded, small_data

SHARED = {"hidden_dim": 16, "dropout": 0.0, "lr": 0.1, "weight_decay": 0.005}


def trained(model_class: Any, data: GraphDataModule, folder: Path, epochs: int, **own: Any) -> Any:
    model = seeded(model_class, data, **SHARED, **own)
    quiet_trainer(folder, epochs).fit(model, datamodule=data)
    return model


def test_until_its_first_mask_pamt_plus_without_trust_is_pta_to_the_bit(tmp_path: Path) -> None:
    data = small_data()
    pta = trained(PTAModule, data, tmp_path / "pta", 9)
    own = {"mask_from": 10, "attribute_trust": False}
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, **own)
    assert torch.equal(plus.soft_labels, pta.soft_labels)
    assert same(plus.net, pta.net)
    masked = trained(PAMTPlusModule, data, tmp_path / "mask", 9, **{**own, "mask_from": 9})
    assert not torch.equal(masked.soft_labels, pta.soft_labels)


def test_all_options_of_pamt_are_options_of_pamt_plus() -> None:
    model = PAMTPlusModule(3, 2, alpha=0.3, mask_floor=0.2, attribute_trust=False)
    assert (model.alpha, model.mask_floor) == (0.3, 0.2)
    assert model.hparams["mask_from"] == model.mask_from
    assert model.hparams["alpha"] == 0.3
    assert model.hparams["attribute_trust"] is False


# Three learners


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("start", [0, 1, 4])
def test_the_unmasked_learner_is_pta_to_the_bit(tmp_path: Path, start: int) -> None:
    data = small_data()
    own = {"mask_from": start, "refresh_interval": 2, "pretrain_epochs": 0}
    pta = trained(PTAModule, data, tmp_path / "pta", 9)
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, **own)
    assert same(plus.others["unmasked"], pta.net)
    assert not same(plus.net, pta.net)


def test_the_masked_learner_learns_as_it_would_alone(tmp_path: Path) -> None:
    data, own = small_data(), {"mask_from": 4, "refresh_interval": 2}
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, **own)
    alone = trained(PAMTPlusModule, data, tmp_path / "alone", 9, inference="mask", **own)
    assert same(plus.net, alone.net)
    assert not alone.others


def test_without_trust_the_masked_learner_is_pamt_with_the_weights_of_pta(tmp_path: Path) -> None:
    data, own = small_data(), {"mask_from": 4, "refresh_interval": 2}
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, attribute_trust=False, **own)
    trusting = trained(PAMTPlusModule, data, tmp_path / "trusting", 9, **own)
    pamt = trained(
        PAMTModule, data, tmp_path / "pamt", 9, momentum=0.0, adaptive_weighting=True, **own
    )
    assert same(plus.net, pamt.net)
    assert not same(trusting.net, pamt.net)


def test_the_masked_learner_goes_by_trust_and_then_by_both(
    tmp_path: Path,
) -> None:
    data = small_data(structure_noise=0.6)
    model = PAMTPlusModule(data.num_features, data.num_classes, hidden_dim=8, mask_from=3)
    batch = data.full_batch()
    generator = torch.Generator().manual_seed(0)
    trusted = trust_edges(batch.adj_norm, data.graph.x, generator)
    model.refresh(batch, epoch=2)
    assert model.soft_labels is not None
    assert torch.equal(model.soft_labels, model.propagated_labels(trusted, batch))
    model.refresh(batch, epoch=3)  # without momentum nothing of the old ones is left
    with torch.no_grad():
        h = mask_representation(model.eval().net(batch.x), "cosine")
    masked = mask_adjacency(trusted, h)
    assert torch.equal(model.soft_labels, model.propagated_labels(masked, batch))


def test_trust_is_that_of_the_graph_at_hand(tmp_path: Path) -> None:
    one, other = small_data(structure_noise=0.6), small_data(structure_noise=0.3)
    model = PAMTPlusModule(one.num_features, one.num_classes, hidden_dim=8).eval()
    model.requires_grad_(False)
    for data in (one, other, one):
        batch = data.full_batch()
        generator = torch.Generator().manual_seed(0)
        expected = trust_edges(batch.adj_norm, data.graph.x, generator)
        trusted = model.structure(batch)
        assert torch.equal(trusted.values, expected.values)
        assert model.structure(batch.at(torch.arange(5))) is trusted  # computed once
    alone = PAMTPlusModule(one.num_features, one.num_classes, hidden_dim=8, inference="mask").eval()
    alone.requires_grad_(False)
    batch = one.full_batch()
    h = mask_representation(alone.net(batch.x), "cosine")
    mask = mask_adjacency(alone.structure(batch), h)
    by_hand = alone.propagated_prediction(alone.net(batch.x), mask)
    assert torch.equal(alone.predict_nodes(batch).probs, by_hand)


def test_the_share_of_random_edges_is_that_of_the_training(
    tmp_path: Path,
) -> None:
    data = small_data(structure_noise=0.6)
    model = trained(PAMTPlusModule, data, tmp_path, 4, mask_from=50)
    model.trainer.save_checkpoint(tmp_path / "four.ckpt")
    batch = data.full_batch()
    share = model.random_share
    assert share == pytest.approx(1 - float(model.edge_trust(batch).mean()))
    assert 0 < share < 1
    model.structure(small_data(structure_noise=0.3).full_batch())
    assert model.random_share == share
    sizes = (data.num_features, data.num_classes)
    again = PAMTPlusModule(*sizes, hidden_dim=16, mask_from=50)
    resumed = quiet_trainer(tmp_path, 6)
    resumed.fit(again, datamodule=data, ckpt_path=str(tmp_path / "four.ckpt"))
    assert again.random_share == share


def test_what_the_mask_leaves_of_an_edge_is_trust_times_similarity(tmp_path: Path) -> None:
    data = small_data(structure_noise=0.6)
    sizes = (data.num_features, data.num_classes)
    pl.seed_everything(0, verbose=False)
    model = PAMTPlusModule(*sizes, hidden_dim=8)
    pl.seed_everything(0, verbose=False)
    plain = PAMTPlusModule(*sizes, hidden_dim=8, attribute_trust=False)
    batch = data.full_batch()
    whole = model.structure(batch).to_dense() / batch.adj_norm.to_dense()
    adjacency = operator(data.graph.adjacency)
    trust = whole[adjacency.row_index, adjacency.col]
    expected = plain.mask_similarity(batch) * trust
    torch.testing.assert_close(model.mask_similarity(batch), expected)
    assert float(trust.min()) < 0.5


def test_the_graphless_learner_knows_the_labelled_nodes_alone(tmp_path: Path) -> None:
    data = small_data()
    plus = trained(PAMTPlusModule, data, tmp_path, 9, mask_from=4)
    pl.seed_everything(0, verbose=False)
    torch.randint(torch.iinfo(torch.int64).max, ())  # the seed of the training
    sizes = (data.num_features, 16, data.num_classes, 0.0)
    *_, net = (MLP(*sizes) for _ in range(3))  # as they are made
    batch = data.full_batch()
    weight, *rest = net.parameters()
    assert weight is net.input.weight
    groups: list[dict[str, Any]] = [
        {"params": [weight], "weight_decay": 0.005},
        {"params": rest},
    ]
    optimizer = torch.optim.Adam(groups, lr=0.1)
    for _ in range(9):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(batch.train_x), batch.train_y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for ours, theirs in zip(plus.others["graphless"].parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("way", CHOICES)
def test_the_validation_nodes_choose_the_learner(tmp_path: Path, way: str) -> None:
    data = small_data(structure_noise=0.6)
    model = trained(PAMTPlusModule, data, tmp_path, 12, mask_from=6, refresh_interval=2).eval()
    model.requires_grad_(False)
    graph, batch = data.graph, data.full_batch()
    # Trust at random and MLPs that have learnt nothing: no two ways answer alike.
    draw = torch.Generator().manual_seed(0)
    adj = batch.adj_norm
    weights = 5 * torch.rand(len(adj.values), generator=draw) ** 4
    batch.trusted_adj = adj.with_values(adj.values * weights)
    for parameter in model.parameters():
        parameter.normal_(0.0, 2.0, generator=draw)
    nets = {"unmasked": model.others["unmasked"], "graphless": model.others["graphless"]}
    answers = {}
    for name in CHOICES:
        logits = nets.get(name, model.net)(batch.x)
        over = {
            "unmasked": batch.adj_norm,
            "structure": batch.adj_norm,
            "trusted": batch.trusted_adj,
            "mask": model.masked_adjacency(batch),
        }.get(name)
        if over is None:
            answers[name] = logits.softmax(1)
        else:
            answers[name] = model.propagated_prediction(logits, over)
    index = graph.val_index
    assert index is not None
    graph.y[index] = answers[way][index].argmax(1)
    torch.testing.assert_close(model.predict_for_validation(batch).probs, answers[way])
    assert model.chosen == way
    torch.testing.assert_close(model.predict_nodes(batch).probs, answers[way])


def test_without_trust_the_trusted_graph_is_not_asked(tmp_path: Path) -> None:
    data = small_data()
    own = {"mask_from": 2, "refresh_interval": 1, "attribute_trust": False}
    model = trained(PAMTPlusModule, data, tmp_path, 4, **own).requires_grad_(False)
    asked, ask = [], model.predict_by

    def watched(name: str, logits: Any, data: Any) -> Any:
        asked.append(name)
        return ask(name, logits, data)

    model.predict_by = watched
    model.predict_for_validation(data.full_batch())
    assert asked == [name for name in CHOICES if name != "trusted"]


def test_before_its_first_mask_the_masked_learner_is_not_asked(tmp_path: Path) -> None:
    data = small_data()
    model = trained(PAMTPlusModule, data, tmp_path, 3, mask_from=9).eval()
    model.requires_grad_(False)
    batch = data.full_batch()
    index = data.graph.val_index
    assert index is not None
    nets = {"unmasked": model.others["unmasked"], "graphless": model.others["graphless"]}
    unmasked = model.propagated_prediction(nets["unmasked"](batch.x), batch.adj_norm)
    answers = {"unmasked": unmasked, "graphless": nets["graphless"](batch.x).softmax(1)}
    for name, probs in answers.items():
        data.graph.y[index] = probs[index].argmax(1)
        torch.testing.assert_close(model.predict_for_validation(batch).probs, probs)
        assert model.chosen == name
    masked = model.net(batch.x).softmax(1)
    data.graph.y[index] = masked[index].argmax(1)
    model.predict_for_validation(batch)
    assert model.chosen in answers


def test_a_best_state_from_before_the_first_mask_stays_one(tmp_path: Path) -> None:
    data = small_data()
    stopping = BestStopping(dirpath=str(tmp_path))

    class Once(PAMTPlusModule):
        """In its second epoch, and only then, all answers of the unmasked learner are right."""

        def predict_by(self, inference: str, logits: Any, batch: Any) -> Any:
            probs = super().predict_by(inference, logits, batch)
            if self.trainer.state.fn != "fit":
                return probs
            if self.current_epoch == 1 and inference == "unmasked":
                return torch.nn.functional.one_hot(batch.graph.y, 3).to(probs.dtype)
            return probs * 0 + 1 / 3

    pl.seed_everything(0, verbose=False)
    model = Once(data.num_features, data.num_classes, hidden_dim=8, mask_from=4, refresh_interval=2)
    quiet_trainer(tmp_path, 6, stopping).fit(model, datamodule=data)
    assert stopping.best_epoch == 2
    assert model.chosen == "unmasked"
    again = PAMTPlusModule.load_from_checkpoint(tmp_path / "best.ckpt", weights_only=True).eval()
    batch = data.full_batch()
    with torch.no_grad():
        logits = again.others["unmasked"](batch.x)
        expected = again.propagated_prediction(logits, batch.adj_norm)
        assert torch.equal(again.predict_nodes(batch).probs, expected)


def test_only_auto_has_other_learners_and_a_choice_in_its_checkpoint() -> None:
    keys = set(PAMTPlusModule(3, 2).state_dict())
    more = {key for key in keys if key.startswith("others.")} | {"inference_choice"}
    assert len(more) > 1
    fixed = PAMTPlusModule(3, 2, inference="mask")
    assert set(fixed.state_dict()) == keys - more
    assert fixed.chosen == "mask"
