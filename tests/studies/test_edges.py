from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from pamt_lightning import Graph, MLPModule
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.studies.edges import bad_edge_metrics
from tests.methods.helpers import small_data, small_model


class Mask:
    """A mask whose value at each edge is a function of its ends."""

    mask = True
    device = torch.device("cpu")

    def __init__(self, similarity: Any) -> None:
        self.similarity = similarity

    def mask_similarity(self, batch: GraphBatch) -> Tensor:
        ends = batch.graph.adjacency.to_dense().nonzero().tolist()  # as the entries are stored
        return torch.tensor([float(self.similarity(i, j)) for i, j in ends])


def brute_force(scores: Any, positive: set[Any], negative: set[Any]) -> float:
    """Share of pairs (a bad edge, a good one) in which the bad one looks less alike."""
    pairs = [(scores[bad], scores[good]) for bad in positive for good in negative]
    return float(np.mean([(bad < good) + (bad == good) / 2 for bad, good in pairs]))


@pytest.mark.parametrize("layout", ["sparse", "dense"])
def test_figures_are_those_of_all_pairs_of_edges(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pamt_lightning.kernels.pairs._ENTRIES_AT_ONCE", 40)
    data = small_data(structure_noise=0.5, noise_seed=3)
    graph = data.graph
    model = small_model(data, representation="cosine").eval()
    x = graph.x.to_dense().double()
    if layout == "dense":
        object.__setattr__(graph, "x", graph.x.to_dense())
    with torch.no_grad():
        h = torch.softmax(model.net(graph.x), 1).double()
    h = h / h.norm(dim=1, keepdim=True)
    unit = x / x.norm(dim=1, keepdim=True).clamp(min=1e-300)
    now, before = graph.adjacency.to_dense().numpy(), data.raw.adjacency.toarray()
    y = graph.y.tolist()
    there = {(i, j) for i in range(240) for j in range(i + 1, 240) if now[i, j]}
    inside = {(i, j) for i, j in there if y[i] == y[j]}
    planted = {edge for edge in there - inside if not before[edge]}
    original = there - inside - planted
    assert min(len(inside), len(planted), len(original)) > 50
    expected = {
        f"{name}_auc_{kind}": brute_force(similarity, positive, inside)
        for name, similarity in (("mask", (h @ h.T).numpy()), ("feature", (unit @ unit.T).numpy()))
        for kind, positive in (("planted", planted), ("original", original))
    }
    # Last bits decide between equals.
    assert bad_edge_metrics(model, data) == pytest.approx(expected, abs=1e-3)


def four_nodes() -> Any:
    """0 and 1 against 2 and 3: 1-3 was there, 0-2 took the place of 0-1, 2-3 is inside."""
    x = sp.csr_array(np.array([[1, 0], [1, 0], [1, 1], [0, 1]], dtype=np.float32))
    now = adjacency([(0, 2), (1, 3), (2, 3)])
    graph = Graph.from_scipy(x, now, [0, 0, 1, 1], ("a", "b"))
    raw = SimpleNamespace(adjacency=adjacency([(0, 1), (1, 3), (2, 3)]))
    batch = GraphBatch.from_graph(graph, torch.float32)
    return SimpleNamespace(graph=graph, raw=raw, full_batch=lambda: batch)


def adjacency(ends: list[tuple[int, int]]) -> Any:
    full = np.zeros((4, 4), dtype=np.float32)
    for i, j in ends:
        full[i, j] = full[j, i] = 1.0
    return sp.csr_array(full)


def test_planted_edges_are_distinguished_from_original_ones() -> None:
    by_edge = {(0, 2): 0.1, (2, 3): 0.5, (1, 3): 0.9}
    metrics = bad_edge_metrics(Mask(lambda i, j: by_edge[min(i, j), max(i, j)]), four_nodes())
    assert metrics == {
        "mask_auc_planted": 1.0,
        "mask_auc_original": 0.0,
        # Cosines: 0-2 and 2-3 are at 45°, 1-3 at 90°.
        "feature_auc_planted": 0.5,
        "feature_auc_original": 1.0,
    }


def test_nothing_is_planted_without_noise_and_nothing_known_without_mask_or_all_labels() -> None:
    data = small_data()
    metrics = bad_edge_metrics(small_model(data), data)
    assert set(metrics) == {"mask_auc_original", "feature_auc_original"}
    assert bad_edge_metrics(MLPModule(60, 3), data) == {}
    assert bad_edge_metrics(small_model(data, mask=False), data) == {}
    data.graph.y[0] = -1
    assert bad_edge_metrics(small_model(data), data) == {}
