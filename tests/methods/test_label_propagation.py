from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pamt_lightning import Graph, LabelPropagationModule
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import InputError
from pamt_lightning.functional import propagate_labels
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import OneGraph, quiet_trainer, small_data


def fitted_to(graph: Graph, **options: float) -> LabelPropagationModule:
    model = LabelPropagationModule(graph.num_features, graph.num_classes, **options).double()  # type: ignore[arg-type]
    return model.eval()


@pytest.mark.parametrize("reset", [False, True])
def test_it_propagates_labels_and_divides_rows_by_their_sums(
    small_graph: Graph, reset: bool
) -> None:
    """tests/functional/test_propagation.py compares the propagation with closed forms."""
    model = fitted_to(small_graph, alpha=0.2, num_steps=20, reset_labelled=reset)
    batch = GraphBatch.from_graph(small_graph, torch.float64)
    labelled = (small_graph.y, batch.train_index, 4)
    expected = propagate_labels(
        batch.adj_norm.to_dense(), *labelled, num_steps=20, alpha=0.2, reset=reset
    )
    torch.testing.assert_close(model.propagated_labels(batch), expected)
    reached = expected.sum(1) > 0
    shares = expected[reached] / expected[reached].sum(1, keepdim=True)
    torch.testing.assert_close(model.predict_nodes(batch).probs[reached], shares)


def test_one_epoch_is_enough_and_nothing_warns(tmp_path: Path) -> None:
    data = small_data()
    model = LabelPropagationModule(data.num_features, data.num_classes)
    trainer = quiet_trainer(tmp_path, 2000, BestStopping(dirpath=str(tmp_path)))
    trainer.fit(model, datamodule=data)  # pytest turns a warning into an error
    assert trainer.current_epoch == 1
    resumed = quiet_trainer(tmp_path, 2000, BestStopping(dirpath=str(tmp_path)))
    again = LabelPropagationModule(data.num_features, data.num_classes)
    resumed.fit(again, datamodule=data, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    assert resumed.current_epoch == 1


def test_unreached_nodes_get_the_shares_of_the_classes(six_nodes: Graph, tmp_path: Path) -> None:
    graph = six_nodes.with_split(torch.tensor([0, 1, 3]), torch.tensor([4]), torch.tensor([2]))
    data = OneGraph(graph)
    model = LabelPropagationModule(4, 2, num_steps=1, alpha=0.1)
    trainer = quiet_trainer(tmp_path, 1)
    trainer.fit(model, datamodule=data)
    torch.testing.assert_close(model.class_shares, torch.tensor([2 / 3, 1 / 3]))
    probs = model.predict_nodes(data.full_batch()).probs
    torch.testing.assert_close(probs[5], model.class_shares)  # node 5 has no edges
    torch.testing.assert_close(probs.sum(1), torch.ones(6))
    (metrics,) = trainer.test(model, datamodule=data, verbose=False)
    assert metrics["test_unreached"] == 0.0
    model.num_steps = 0  # a label stays where it is
    (metrics,) = trainer.test(model, datamodule=data, verbose=False)
    assert metrics["test_unreached"] == 1.0


def test_a_graph_without_labels_is_refused(small_graph: Graph) -> None:
    bare = Graph(small_graph.x, small_graph.adjacency, small_graph.y, small_graph.class_names)
    model = fitted_to(bare)
    with pytest.raises(InputError, match="no training nodes"):
        model.predict_step(GraphBatch.from_graph(bare), 0)


def test_a_prediction_reports_unreached_nodes(
    six_nodes: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    fitted_to(six_nodes).predict_step(GraphBatch.from_graph(six_nodes), 0)
    assert "1 of 6 nodes are reached by no label" in caplog.text
    caplog.clear()
    fitted_to(six_nodes, alpha=1.0).predict_step(GraphBatch.from_graph(six_nodes), 0)
    assert "4 of 6 nodes" in caplog.text
