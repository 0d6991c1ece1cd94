"""Several processes that share the nodes do what one does."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning.functional import RowShare, normalize_adjacency
from pamt_lightning.functional.mask import edge_similarity, mask_adjacency
from pamt_lightning.functional.normalize import take_csr_rows
from pamt_lightning.graph import Graph
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import quiet_trainer, small_data
from tests.methods.test_every_method import new

# Every process knows all predictions, so its figures are those of the whole.
pytestmark = pytest.mark.filterwarnings("ignore:It is recommended to use .self.log")


def fitted(
    name: str, folder: Path, world_size: int, epochs: int = 12, **options: Any
) -> dict[str, Any]:
    """The last checkpoint of a training by so many processes."""
    ckpt_path = options.pop("ckpt_path", None)
    data = small_data(batch_size=options.pop("batch_size", None))
    torch.manual_seed(0)
    model = new(name, data, **options)
    more = {"strategy": "ddp_fork", "devices": world_size} if world_size > 1 else {}
    trainer = quiet_trainer(folder, epochs, BestStopping(dirpath=str(folder)), **more)
    trainer.fit(model, datamodule=data, ckpt_path=ckpt_path)
    found: dict[str, Any] = torch.load(folder / "last.ckpt", weights_only=True)
    return found


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["epoch"] == expected["epoch"]
    for key, value in expected["state_dict"].items():
        torch.testing.assert_close(found["state_dict"][key], value, rtol=0, atol=1e-5)
    torch.testing.assert_close(found["soft_labels"], expected["soft_labels"], rtol=0, atol=1e-5)
    assert torch.equal(found["rng"]["torch"], expected["rng"]["torch"])


@pytest.mark.parametrize("batch_size", [None, 37])
@pytest.mark.parametrize("world_size", [2, 3])
def test_the_weights_are_those_of_one_process(
    world_size: int, batch_size: int | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"dropout": 0.3, "refresh_interval": 3, "batch_size": batch_size}
    expected = fitted("PAMT", tmp_path / "one", 1, **options)
    assert_close(fitted("PAMT", tmp_path / "many", world_size, **options), expected)


@pytest.mark.parametrize("name", ["PTS", "PTA", "PAMT_1"])
def test_all_methods_that_look_at_one_node_at_a_time_can_share(name: str, tmp_path: Path) -> None:
    expected = fitted(name, tmp_path / "one", 1)
    assert_close(fitted(name, tmp_path / "two", 2), expected)


@pytest.mark.parametrize("kind", ["row", "sym"])
def test_a_mask_that_is_renormalised_too(kind: str, tmp_path: Path) -> None:
    expected = fitted("PAMT", tmp_path / "one", 1, mask_normalization=kind)
    assert_close(fitted("PAMT", tmp_path / "two", 2, mask_normalization=kind), expected)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_processes_goes_on(before: int, after: int, tmp_path: Path) -> None:
    expected = fitted("PAMT", tmp_path / "whole", 1, epochs=10, dropout=0.3)
    fitted("PAMT", tmp_path / "run", before, epochs=5, dropout=0.3)
    last = tmp_path / "run" / "last.ckpt"
    found = fitted("PAMT", tmp_path / "run", after, epochs=10, dropout=0.3, ckpt_path=last)
    assert_close(found, expected)


@pytest.mark.parametrize("name", ["GCN", "MLP", "PAMT_plus"])
def test_others_say_that_they_work_in_one_process(name: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="works in one process"):
        fitted(name, tmp_path, 2)


# Rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_shares_are_all_rows_once_and_differ_by_one_at_most(world_size: int) -> None:
    shares = [RowShare.of(20, rank, world_size) for rank in range(world_size)]
    rows = [list(range(20)[share.rows]) for share in shares]
    assert [row for part in rows for row in part] == list(range(20))
    assert max(map(len, rows)) - min(map(len, rows)) <= 1
    nodes = torch.tensor([0, 3, 4, 9, 10, 19])
    parts = [share.part_of(nodes) for share in shares]
    assert torch.equal(torch.cat([own for own, _ in parts]), nodes)
    for share, (own, before) in zip(shares, parts, strict=True):
        assert before == int((nodes < share.first).sum())
        assert all(node in range(20)[share.rows] for node in own.tolist())


def test_a_share_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`rank` must lie in \[0, 2\), got 2"):
        RowShare.of(5, 2, 2)
    with pytest.raises(ValueError, match="`part` must have 5 rows, got 4"):
        RowShare.of(5).gather(torch.zeros(4, 2))


def test_rows_of_the_mask_are_those_of_the_whole(small_graph: Graph) -> None:
    adj = normalize_adjacency(small_graph.adjacency)
    h = torch.softmax(torch.randn(small_graph.num_nodes, 3), dim=1)
    whole = mask_adjacency(adj, h, floor=0.1)
    for rank in range(3):
        share = RowShare.of(small_graph.num_nodes, rank, 3)
        rows = take_csr_rows(adj, share.rows)
        expected = take_csr_rows(whole, share.rows)
        found = mask_adjacency(rows, h, floor=0.1, first=share.first)
        assert torch.equal(found.to_dense(), expected.to_dense())
    with pytest.raises(ValueError, match="rows of a square sparse CSR tensor"):
        edge_similarity(rows, h, first=small_graph.num_nodes)
