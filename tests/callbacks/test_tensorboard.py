from pathlib import Path

import pytest
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pamt_lightning.callbacks import BestStopping, TensorBoardMonitor
from tests.modules.helpers import quiet_trainer, small_data, small_model


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> EventAccumulator:
    pytest.importorskip("matplotlib", reason="images need the extra `plots`")
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
