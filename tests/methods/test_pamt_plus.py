"""PAMT after a start without mask, and PAMT_plus: three learners, one of which starts so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from pamt_lightning import GraphDataModule, PAMTModule, PAMTPlusModule, PTAModule
from pamt_lightning.errors import InputError
from pamt_lightning.functional import (
    mask_adjacency,
    mask_representation,
    row_indices,
    trust_edges,
)
from pamt_lightning.functional.normalize import with_values
from pamt_lightning.methods.pamt_plus import CHOICES
from pamt_lightning.nn import MLP
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import quiet_trainer, small_data, small_model
from tests.methods.test_pamt import Refreshes

SHARED = {"hidden_dim": 16, "dropout": 0.0, "lr": 0.1, "weight_decay": 0.005}


def trained(model_class: Any, data: GraphDataModule, folder: Path, epochs: int, **own: Any) -> Any:
    pl.seed_everything(0, verbose=False)
    model = model_class(data.num_features, data.num_classes, **SHARED, **own)
    quiet_trainer(folder, epochs).fit(model, datamodule=data)
    return model


@pytest.mark.parametrize(
    ("start", "interval", "expected"),
    [(4, 3, [1, 4, 7]), (1, 4, [1, 5]), (0, 4, [1, 4, 8]), (9, 1, [1])],
)
def test_masks_are_made_from_the_epoch_that_is_named_on(
    tmp_path: Path, start: int, interval: int, expected: list[int]
) -> None:
    data, watch = small_data(), Refreshes()
    model = small_model(data, refresh_interval=interval, mask_from=start)
    quiet_trainer(tmp_path, 8, watch, enable_checkpointing=False).fit(model, datamodule=data)
    assert watch.epochs == expected


def test_until_its_first_mask_pamt_plus_without_trust_is_pta_to_the_bit(tmp_path: Path) -> None:
    data = small_data()
    pta = trained(PTAModule, data, tmp_path / "pta", 9)
    own = {"mask_from": 10, "attribute_trust": False}
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, **own)
    assert torch.equal(plus.soft_labels, pta.soft_labels)
    for ours, theirs in zip(plus.net.parameters(), pta.net.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_from_its_first_mask_on_it_is_not(tmp_path: Path) -> None:
    data = small_data()
    pta = trained(PTAModule, data, tmp_path / "pta", 9)
    own = {"mask_from": 9, "attribute_trust": False}
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, **own)
    assert not torch.equal(plus.soft_labels, pta.soft_labels)


def test_the_first_mask_is_that_of_the_network_so_far(tmp_path: Path) -> None:
    data = small_data()
    model = small_model(data, mask_from=3, refresh_interval=2, momentum=0.0)
    prepared = model.prepare(data.graph_on(torch.device("cpu")))
    model.refresh(prepared, epoch=2)
    assert model.soft_labels is not None
    assert torch.equal(model.soft_labels, model.propagated_labels(prepared.adj_norm, prepared))
    model.refresh(prepared, epoch=3)
    masked = model.propagated_labels(model.masked_adjacency(prepared), prepared)
    assert torch.equal(model.soft_labels, masked)
    assert not torch.equal(masked, model.propagated_labels(prepared.adj_norm, prepared))


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


def test_a_mask_that_would_never_be_made_is_refused() -> None:
    with pytest.raises(InputError, match="`mask_from`=5 needs a `refresh_interval`"):
        PAMTModule(3, 2, mask_from=5, refresh_interval=0)
    with pytest.raises(InputError, match="`mask_from` must be 0 or more, got -1"):
        PAMTModule(3, 2, mask_from=-1)


def test_pamt_plus_is_never_called_pamt() -> None:
    assert PAMTPlusModule(3, 2).method == "PAMT_plus"
    assert PAMTPlusModule(3, 2, momentum=0.5, mask_from=0).method == "PAMT_plus"


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
def test_the_unmasked_learner_is_pta_to_the_bit_whatever_the_masked_one_does(
    tmp_path: Path, start: int
) -> None:
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


def test_the_masked_learner_goes_by_trust_and_from_its_first_mask_on_by_both(
    tmp_path: Path,
) -> None:
    data = small_data(structure_noise=0.6)
    model = PAMTPlusModule(data.num_features, data.num_classes, hidden_dim=8, mask_from=3)
    prepared = model.prepare(data.graph_on(torch.device("cpu")))
    generator = torch.Generator().manual_seed(0)
    trusted = trust_edges(prepared.adj_norm, data.graph.x, generator)
    model.refresh(prepared, epoch=2)
    assert model.soft_labels is not None
    assert torch.equal(model.soft_labels, model.propagated_labels(trusted, prepared))
    model.refresh(prepared, epoch=3)  # without momentum nothing of the old ones is left
    with torch.no_grad():
        h = mask_representation(model.eval().net(prepared.x), "cosine")
    masked = mask_adjacency(trusted, h)
    assert torch.equal(model.soft_labels, model.propagated_labels(masked, prepared))


def test_trust_is_that_of_the_graph_at_hand(tmp_path: Path) -> None:
    one, other = small_data(structure_noise=0.6), small_data(structure_noise=0.3)
    model = PAMTPlusModule(one.num_features, one.num_classes, hidden_dim=8).eval()
    model.requires_grad_(False)
    for data in (one, other, one):
        prepared = model.prepare(data.graph_on(torch.device("cpu")))
        generator = torch.Generator().manual_seed(0)
        expected = trust_edges(prepared.adj_norm, data.graph.x, generator)
        trusted = model.trusted(prepared)
        assert torch.equal(trusted.adj_norm.values(), expected.values())
        assert model.trusted(trusted) is trusted is model.trusted(prepared)
    alone = PAMTPlusModule(one.num_features, one.num_classes, hidden_dim=8, inference="mask").eval()
    alone.requires_grad_(False)
    prepared = alone.prepare(one.graph)
    h = mask_representation(alone.net(prepared.x), "cosine")
    mask = mask_adjacency(alone.trusted(prepared).adj_norm, h)
    by_hand = alone.propagated_prediction(alone.net(prepared.x), mask, prepared)
    assert torch.equal(alone.predict_nodes(prepared).probs, by_hand)


def test_the_share_of_random_edges_is_that_of_the_training_also_when_resumed(
    tmp_path: Path,
) -> None:
    data = small_data(structure_noise=0.6)
    model = trained(PAMTPlusModule, data, tmp_path, 4, mask_from=50)
    model.trainer.save_checkpoint(tmp_path / "four.ckpt")
    prepared = model.prepare(data.graph)
    share = model.random_share
    assert share == pytest.approx(1 - float(model.edge_trust(prepared).mean()))
    assert 0 < share < 1
    model.trusted(model.prepare(small_data(structure_noise=0.3).graph_on(model.device)))
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
    prepared = model.prepare(data.graph)
    whole = model.trusted(prepared).adj_norm.to_dense() / prepared.adj_norm.to_dense()
    adjacency = data.graph.adjacency
    trust = whole[row_indices(adjacency), adjacency.col_indices()]
    expected = plain.mask_similarity(data.graph) * trust
    torch.testing.assert_close(model.mask_similarity(data.graph), expected)
    assert float(trust.min()) < 0.5


def test_the_graphless_learner_knows_the_labelled_nodes_alone(tmp_path: Path) -> None:
    data = small_data()
    plus = trained(PAMTPlusModule, data, tmp_path, 9, mask_from=4)
    pl.seed_everything(0, verbose=False)
    torch.randint(torch.iinfo(torch.int64).max, ())  # the seed of the training
    sizes = (data.num_features, 16, data.num_classes, 0.0)
    *_, net = (MLP(*sizes) for _ in range(3))  # as they are made
    prepared = plus.prepare(data.graph)
    weight, *rest = net.parameters()
    assert weight is net.input.weight
    groups: list[dict[str, Any]] = [
        {"params": [weight], "weight_decay": 0.005},
        {"params": rest},
    ]
    optimizer = torch.optim.Adam(groups, lr=0.1)
    for _ in range(9):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(prepared.train_x), prepared.train_y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for ours, theirs in zip(plus.others["graphless"].parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("way", CHOICES)
def test_the_stopping_nodes_choose_the_learner(tmp_path: Path, way: str) -> None:
    data = small_data(structure_noise=0.6)
    model = trained(PAMTPlusModule, data, tmp_path, 12, mask_from=6, refresh_interval=2).eval()
    model.requires_grad_(False)
    graph, prepared = data.graph, model.prepare(data.graph)
    # Trust at random and MLPs that have learnt nothing: no two ways answer alike.
    draw = torch.Generator().manual_seed(0)
    adj = prepared.adj_norm
    weights = 5 * torch.rand(len(adj.values()), generator=draw) ** 4
    random_trust = replace(prepared, adj_norm=with_values(adj, adj.values() * weights))
    model._trusted_data = (prepared, random_trust)
    for parameter in model.parameters():
        parameter.normal_(0.0, 2.0, generator=draw)
    nets = {"unmasked": model.others["unmasked"], "graphless": model.others["graphless"]}
    answers = {}
    for name in CHOICES:
        logits = nets.get(name, model.net)(prepared.x)
        over = {
            "unmasked": prepared.adj_norm,
            "structure": prepared.adj_norm,
            "trusted": model.trusted(prepared).adj_norm,
            "mask": model.masked_adjacency(prepared),
        }.get(name)
        if over is None:
            answers[name] = logits.softmax(1)
        else:
            answers[name] = model.propagated_prediction(logits, over, prepared)
    index = graph.val_index
    assert index is not None
    graph.y[index] = answers[way][index].argmax(1)
    torch.testing.assert_close(model.predict_for_stopping(prepared).probs, answers[way])
    assert model.chosen == way
    torch.testing.assert_close(model.predict_nodes(prepared).probs, answers[way])


def test_of_equally_right_ways_the_one_with_the_lower_loss_is_chosen(tmp_path: Path) -> None:
    data = small_data()
    model = trained(PAMTPlusModule, data, tmp_path, 4, mask_from=2, refresh_interval=1)
    prepared = model.prepare(data.graph)
    model.requires_grad_(False)
    surest = {"graphless": 0.9, "structure": 0.8, "network": 0.9}

    def probs(name: str, logits: Any, data: Any) -> Any:
        right = torch.nn.functional.one_hot(data.graph.y, 3)
        share = surest.get(name, 0.7)
        return right * share + (1 - right) * (1 - share) / 2

    model._probs = probs
    model.predict_for_stopping(prepared)
    assert model.chosen == "network"  # the first of equals
    surest["graphless"] = 0.95
    model.predict_for_stopping(prepared)
    assert model.chosen == "graphless"


def test_without_trust_the_trusted_graph_is_not_asked(tmp_path: Path) -> None:
    data = small_data()
    own = {"mask_from": 2, "refresh_interval": 1, "attribute_trust": False}
    model = trained(PAMTPlusModule, data, tmp_path, 4, **own).requires_grad_(False)
    asked, ask = [], model._probs

    def watched(name: str, logits: Any, data: Any) -> Any:
        asked.append(name)
        return ask(name, logits, data)

    model._probs = watched
    model.predict_for_stopping(model.prepare(data.graph))
    assert asked == [name for name in CHOICES if name != "trusted"]


def test_before_its_first_mask_the_masked_learner_is_not_asked(tmp_path: Path) -> None:
    data = small_data()
    model = trained(PAMTPlusModule, data, tmp_path, 3, mask_from=9).eval()
    model.requires_grad_(False)
    prepared = model.prepare(data.graph)
    index = data.graph.val_index
    assert index is not None
    nets = {"unmasked": model.others["unmasked"], "graphless": model.others["graphless"]}
    unmasked = model.propagated_prediction(
        nets["unmasked"](prepared.x), prepared.adj_norm, prepared
    )
    answers = {"unmasked": unmasked, "graphless": nets["graphless"](prepared.x).softmax(1)}
    for name, probs in answers.items():
        data.graph.y[index] = probs[index].argmax(1)
        torch.testing.assert_close(model.predict_for_stopping(prepared).probs, probs)
        assert model.chosen == name
    masked = model.net(prepared.x).softmax(1)
    data.graph.y[index] = masked[index].argmax(1)
    model.predict_for_stopping(prepared)
    assert model.chosen in answers


def test_a_best_state_from_before_the_first_mask_stays_one(tmp_path: Path) -> None:
    data = small_data()
    stopping = BestStopping(dirpath=str(tmp_path))

    class Once(PAMTPlusModule):
        """In its second epoch, and only then, all answers of the unmasked learner are right."""

        def _probs(self, name: str, logits: Any, data: Any) -> Any:
            probs = super()._probs(name, logits, data)
            if self.trainer.state.fn != "fit":
                return probs
            if self.current_epoch == 1 and name == "unmasked":
                return torch.nn.functional.one_hot(data.graph.y, 3).to(probs.dtype)
            return probs * 0 + 1 / 3

    pl.seed_everything(0, verbose=False)
    model = Once(data.num_features, data.num_classes, hidden_dim=8, mask_from=4, refresh_interval=2)
    quiet_trainer(tmp_path, 6, stopping).fit(model, datamodule=data)
    assert stopping.best_epoch == 2
    assert model.chosen == "unmasked"
    again = PAMTPlusModule.load_from_checkpoint(tmp_path / "best.ckpt", weights_only=True).eval()
    prepared = again.prepare(data.graph)
    with torch.no_grad():
        logits = again.others["unmasked"](prepared.x)
        expected = again.propagated_prediction(logits, prepared.adj_norm, prepared)
        assert torch.equal(again.predict_nodes(prepared).probs, expected)


def test_only_auto_has_other_learners_and_a_choice_in_its_checkpoint() -> None:
    keys = set(PAMTPlusModule(3, 2).state_dict())
    more = {key for key in keys if key.startswith("others.")} | {"inference_choice"}
    assert len(more) > 1
    fixed = PAMTPlusModule(3, 2, inference="mask")
    assert set(fixed.state_dict()) == keys - more
    assert fixed.chosen == "mask"
