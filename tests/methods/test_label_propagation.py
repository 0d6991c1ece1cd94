from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pamt_lightning import Graph, LabelPropagationModule
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import InputError
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import OneGraph, quiet_trainer, small_data


def fitted_to(graph: Graph, **options: float) -> LabelPropagationModule:
    model = LabelPropagationModule(graph.num_features, graph.num_classes, **options).double()  # type: ignore[arg-type]
    return model.eval()


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_many_steps_reach_the_closed_form(small_graph: Graph, alpha: float) -> None:
    model = fitted_to(small_graph, alpha=alpha, num_steps=500)
    batch = GraphBatch.from_graph(small_graph, torch.float64)
    train = small_graph.train_index
    assert train is not None
    y0 = torch.zeros(300, 4, dtype=torch.float64)
    y0[train, small_graph.y[train]] = 1
    eye = torch.eye(300, dtype=torch.float64)
    closed = alpha * torch.linalg.solve(eye - (1 - alpha) * batch.adj_norm.to_dense(), y0)
    torch.testing.assert_close(model.propagated_labels(batch), closed)
    reached = closed.sum(1) > 0
    expected = closed[reached] / closed[reached].sum(1, keepdim=True)
    torch.testing.assert_close(model.predict_nodes(batch).probs[reached], expected)


def test_with_labelled_rows_reset_many_steps_reach_the_closed_form(small_graph: Graph) -> None:
    """Rows of the labelled nodes are fixed; the others solve a linear system of their own."""
    model = fitted_to(small_graph, alpha=0.1, num_steps=500, reset_labelled=True)
    batch = GraphBatch.from_graph(small_graph, torch.float64)
    train = small_graph.train_index
    assert train is not None
    others = torch.from_numpy(np.setdiff1d(np.arange(300), train.numpy()))
    y_train = torch.nn.functional.one_hot(small_graph.y[train], 4).double()
    a = batch.adj_norm.to_dense()
    system = torch.eye(len(others), dtype=torch.float64) - 0.9 * a[others][:, others]
    solved = torch.linalg.solve(system, 0.9 * a[others][:, train] @ y_train)
    actual = model.propagated_labels(batch)
    torch.testing.assert_close(actual[train], y_train)
    torch.testing.assert_close(actual[others], solved)


def test_the_attributes_do_not_matter(small_graph: Graph) -> None:
    model = fitted_to(small_graph)
    before = model.predict_nodes(GraphBatch.from_graph(small_graph, torch.float64)).probs
    other = Graph(
        torch.rand(300, 60), small_graph.adjacency, small_graph.y, small_graph.class_names
    ).with_split(small_graph.train_index, small_graph.val_index, small_graph.test_index)  # type: ignore[arg-type]
    assert torch.equal(
        before, model.predict_nodes(GraphBatch.from_graph(other, torch.float64)).probs
    )


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


def test_nodes_that_no_label_reaches_get_the_shares_of_the_classes(
    six_nodes: Graph, tmp_path: Path
) -> None:
    graph = six_nodes.with_split(torch.tensor([0, 1, 3]), torch.tensor([4]), torch.tensor([2]))
    data = OneGraph(graph)
    model = LabelPropagationModule(4, 2, num_steps=1, alpha=0.1)
    trainer = quiet_trainer(tmp_path, 1)
    trainer.fit(model, datamodule=data)
    torch.testing.assert_close(model.class_shares, torch.tensor([2 / 3, 1 / 3]))
    probs = model.predict_nodes(data.full_batch()).probs
    torch.testing.assert_close(probs[5], model.class_shares)  # node 5 has no edges
    torch.testing.assert_close(probs.sum(1), torch.ones(6))


def test_the_share_of_unreached_test_nodes_is_told(tmp_path: Path) -> None:
    data = small_data()
    model = LabelPropagationModule(data.num_features, data.num_classes, num_steps=0)
    trainer = quiet_trainer(tmp_path, 1)
    trainer.fit(model, datamodule=data)
    (metrics,) = trainer.test(model, datamodule=data, verbose=False)
    assert metrics["test_unreached"] == 1.0  # without steps a label stays where it is


def test_a_graph_without_labels_is_refused(small_graph: Graph) -> None:
    bare = Graph(small_graph.x, small_graph.adjacency, small_graph.y, small_graph.class_names)
    model = fitted_to(bare)
    with pytest.raises(InputError, match="no training nodes"):
        model.predict_step(GraphBatch.from_graph(bare), 0)


def test_a_prediction_tells_how_many_nodes_no_label_reaches(
    six_nodes: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    fitted_to(six_nodes).predict_step(GraphBatch.from_graph(six_nodes), 0)
    assert "1 of 6 nodes are reached by no label" in caplog.text
    caplog.clear()
    fitted_to(six_nodes, alpha=1.0).predict_step(GraphBatch.from_graph(six_nodes), 0)
    assert "4 of 6 nodes" in caplog.text
