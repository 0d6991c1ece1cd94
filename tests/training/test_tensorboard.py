from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from pamt_lightning.graph import Graph
from pamt_lightning.training.stopping import BestStopping
from pamt_lightning.training.tensorboard import TensorBoardMonitor, add_histogram, mask_weights
from tests.matrices import normalized
from tests.methods.helpers import quiet_trainer, small_data, small_model


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> EventAccumulator:
    folder = tmp_path_factory.mktemp("logs")
    data = small_data()
    model = small_model(data, log_every_n_epochs=2)
    logger = TensorBoardLogger(folder, name="", version="run", default_hp_metric=False)
    callbacks = (TensorBoardMonitor(), BestStopping())
    trainer = quiet_trainer(folder, 7, *callbacks, logger=logger)
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data, verbose=False)
    logger.finalize("success")
    found = EventAccumulator(str(folder / "run"), size_guidance={"images": 0, "histograms": 0})
    found.Reload()
    return found


@pytest.mark.parametrize(
    "tag", ["train_loss", "val_loss", "val_acc", "val_acc_network", "epochs_per_second"]
)
def test_figures_of_the_training_are_there_every_second_epoch(
    events: EventAccumulator, tag: str
) -> None:
    assert [event.step for event in events.Scalars(tag)] == [2, 4, 6]


def test_each_refresh_shows_mask_weights_and_the_change_of_soft_labels(
    events: EventAccumulator,
) -> None:
    assert [event.step for event in events.Histograms("mask_weights")] == [0, 3, 6]
    assert [event.step for event in events.Scalars("soft_label_change")] == [0, 3, 6]
    weights = events.Histograms("mask_weights")[0].histogram_value
    assert 0.0 < weights.min <= weights.max <= 1.0


@pytest.mark.parametrize("tag", ["test/confusion", "test/reliability"])
def test_the_test_is_drawn(events: EventAccumulator, tag: str) -> None:
    (image,) = events.Images(tag)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert min(image.width, image.height) > 300


def test_another_logger_is_left_alone(tmp_path: Path) -> None:
    data = small_data()
    trainer = quiet_trainer(tmp_path, 2, TensorBoardMonitor(), BestStopping())
    trainer.fit(small_model(data), datamodule=data)
    assert not list(tmp_path.rglob("events*"))


def test_a_histogram_is_that_of_numpy(tmp_path: Path) -> None:
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0)) ** 2
    with SummaryWriter(tmp_path) as board:
        near = torch.tensor([1.0, 1.0 + 2.3e-16], dtype=torch.float64)
        for step, shown in enumerate((values, near, torch.empty(0))):
            add_histogram(board, "weights", shown, step)
    events = EventAccumulator(str(tmp_path), {"histograms": 0})
    events.Reload()
    many, same = (event.histogram_value for event in events.Histograms("weights"))
    assert (many.min, many.max, many.num) == (values.min(), values.max(), 1000)
    assert many.sum == pytest.approx(float(values.double().sum()))
    assert many.sum_squares == pytest.approx(float(values.double().square().sum()))
    counts, limits = np.histogram(values.double().numpy(), 50)
    assert many.bucket == [0, *counts]
    assert many.bucket_limit == pytest.approx(limits)
    assert (same.num, sum(same.bucket)) == (2, 2)


def test_weights_are_those_of_each_edge_once_and_of_a_large_graph_some(small_graph: Graph) -> None:
    adj = normalized(small_graph, torch.float32)
    share = torch.linspace(0.1, 1.0, len(adj.values))
    mask = adj.with_values(adj.values * share)
    above = adj.row_index < adj.col
    found = mask_weights(mask, adj)
    assert len(found) == small_graph.num_edges
    torch.testing.assert_close(found, share[above])
    some = mask_weights(mask, adj, most=100)
    assert 60 < len(some) < 160
    step = len(adj.values) // 200
    torch.testing.assert_close(some, share[::step][above[::step]])
