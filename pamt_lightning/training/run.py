"""The one way to run a method: `run` trains, tests and reports; `evaluate` uses a checkpoint."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import Callback, ProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.training.checkpoint import (
    check_resumable,
    data_state,
    find_checkpoint,
    load_checkpoint,
    model_values,
)
from pamt_lightning.training.config import SIZES, RunConfig, import_class
from pamt_lightning.training.estimate import LongRunNote
from pamt_lightning.training.folders import (
    CONFIG,
    RESULTS,
    RunFolder,
    choose_folder,
)
from pamt_lightning.training.progress import EpochBar
from pamt_lightning.training.quiet import silence_lightning
from pamt_lightning.training.results import result_record, write_results
from pamt_lightning.training.stopping import BEST, LAST, BestStopping
from pamt_lightning.training.tensorboard import TensorBoardMonitor

# The messages of gloo and NCCL when a process at the other end of a connection has ended.
_LOST = re.compile(r"(closed|reset) by peer|broken pipe|timed out|remote process exited", re.I)


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        config: Its configuration.
        record: What ``results.json`` holds.
        model: The model with the best state.
        datamodule: The data.
        trainer: The trainer.
        folder: Where the files are; none if none were written.
    """

    config: RunConfig
    record: dict[str, Any]
    model: NodeClassificationModule
    datamodule: GraphDataModule
    trainer: pl.Trainer
    folder: Path | None

    @property
    def test_acc(self) -> float | None:
        """Accuracy on the test nodes; none if the run was not tested."""
        value: float | None = self.record["test_acc"]
        return value

    @property
    def val_acc(self) -> float | None:
        """Accuracy on the validation nodes."""
        value: float | None = self.record["val_acc"]
        return value

    def __repr__(self) -> str:
        name, data = self.record["method"], self.record["dataset"]
        test = "not tested" if self.test_acc is None else f"test_acc={self.test_acc:.4f}"
        return f"RunResult({name} on {data}, {test}, folder={self.folder})"


def run(
    config: RunConfig,
    *,
    folder: Path | str | None = None,
    root: Path | str | None = None,
    resume: Path | str | None = None,
    quiet: bool = False,
    may_relaunch: bool = False,
) -> RunResult:
    """Train a method, test its best state and report.

    Args:
        config: The run.
        folder: Where its files go; without it and without ``root`` none are written.
        root: Where a new folder is made for it, named after data, method and seeds.
        resume: The ``last.ckpt`` of a run to resume; ``last`` for that of the newest run in
            ``folder`` or ``root``, if there is one.
        quiet: Whether no progress is shown.
        may_relaunch: Whether Lightning may start the running command again for more devices.

    Raises:
        InputError: A value is wrong, or the data cannot be read.
        KeyboardInterrupt: The user interrupted the run; the message names how to resume it.
    """
    silence_lightning()
    with _lightning_errors():
        config = config.complete()
        pl.seed_everything(config.seed, workers=True, verbose=False)
        datamodule = GraphDataModule(**config.data)
        model = _build_model(config, datamodule.num_features, datamodule.num_classes)
        place = None
        if resume == "last" and not (folder or root):
            raise InputError("`resume`='last' needs `folder` or `root`.")
        if (folder or root or resume) and not config.trainer.get("fast_dev_run"):
            place = choose_folder(datamodule, config.method, config.seed, folder, root, resume)
        checkpoint = _open_resumed(place, config, model, datamodule)
        dirpath = None if place is None else str(place.path)
        stopping = BestStopping(**config.stopping, dirpath=dirpath)
        trainer = _build_trainer(config, stopping, place, checkpoint, quiet)
        _check_devices(trainer, may_relaunch)
        writes = place is not None and trainer.is_global_zero
        if place is not None and writes and checkpoint is None:
            config.save(place.path / CONFIG)
        _fit(trainer, model, datamodule, place)
        if not stopping.best_state and not config.trainer.get("fast_dev_run"):
            # With max_epochs=0 Lightning skips the training and its hooks.
            raise InputError("nothing was trained: `trainer.max_epochs` must be 1 or more.")
        tested = _test(trainer, model, datamodule, place) if config.test else {}
        record = result_record(config, trainer, model, datamodule, stopping, tested)
        if place is not None and writes:
            config.save(place.path / CONFIG)
            write_results(place.path / RESULTS, record)
    return RunResult(config, record, model, datamodule, trainer, place.path if place else None)


def _fit(
    trainer: pl.Trainer,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
    place: RunFolder | None,
) -> None:
    resumed = None if place is None else place.resumed
    try:
        trainer.fit(model, datamodule=datamodule, ckpt_path=resumed, weights_only=True)
    except SystemExit:  # what Lightning makes of Ctrl-C
        raise KeyboardInterrupt(f"Interrupted. {_how_to_resume(place)}") from None
    except RuntimeError as error:
        if trainer.world_size == 1 or not _LOST.search(str(error)):
            raise
        raise InputError(
            f"another process of this run has ended. {_how_to_resume(place)}"
        ) from None


def _how_to_resume(place: RunFolder | None) -> str:
    if place is not None and (place.path / LAST).is_file():
        return f"Resume with: pamt fit --ckpt_path {place.path}"
    return "Nothing was saved yet."


def _test(
    trainer: pl.Trainer,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
    place: RunFolder | None,
) -> dict[str, float]:
    if datamodule.split is None or len(datamodule.split.test) == 0:
        return {}
    best = None if place is None else place.path / BEST
    ckpt_path = best if best is not None and best.is_file() else None
    found = trainer.test(
        model, datamodule=datamodule, ckpt_path=ckpt_path, verbose=False, weights_only=True
    )
    return dict(found[0])


def evaluate(
    config: RunConfig, checkpoint_file: Path, stage: Literal["validate", "test"]
) -> tuple[dict[str, float], GraphDataModule]:
    """Metrics of a checkpoint on the validation or the test nodes of some data."""
    silence_lightning()
    with _lightning_errors():
        model, datamodule, trainer = _build_trained(config, checkpoint_file)
        call = trainer.validate if stage == "validate" else trainer.test
        found = call(
            model,
            datamodule=datamodule,
            ckpt_path=checkpoint_file,
            verbose=False,
            weights_only=True,
        )
    return dict(found[0]), datamodule


def predict(config: RunConfig, checkpoint_file: Path) -> tuple[Tensor, GraphDataModule]:
    """Class probabilities ``[N, C]`` that a checkpoint gives to the nodes of some data."""
    silence_lightning()
    with _lightning_errors():
        model, datamodule, trainer = _build_trained(config, checkpoint_file)
        if model.predicts_from_labels:
            datamodule.setup("test")  # a prediction alone makes no split
        found: Any = trainer.predict(
            model, datamodule=datamodule, ckpt_path=checkpoint_file, weights_only=True
        )
    return found[0], datamodule


@contextmanager
def _lightning_errors() -> Iterator[None]:
    """Lightning's exception for a wrong option is an error of the input."""
    try:
        yield
    except MisconfigurationException as error:
        raise InputError(" ".join(str(error).split())) from None


class _MethodName(Callback):
    """Stores the name of the method in checkpoints."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the name."""
        checkpoint["method"] = self.name


def _build_model(
    config: RunConfig, num_features: int, num_classes: int
) -> NodeClassificationModule:
    model_class = import_class(str(config.model["class_path"]))
    values = dict(config.model["init_args"])
    model: NodeClassificationModule = model_class(num_features, num_classes, **values)
    return model


def _build_trainer(
    config: RunConfig,
    stopping: BestStopping | None,
    place: RunFolder | None,
    checkpoint: Mapping[str, Any] | None,
    quiet: bool,
) -> pl.Trainer:
    options = {name: _instantiated(value) for name, value in config.trainer.items()}
    callbacks = options.pop("callbacks", None) or []
    callbacks = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    logger = options.pop("logger", None)
    if quiet:
        options["enable_progress_bar"] = False
    elif options.get("enable_progress_bar") is not False:
        callbacks += [] if any(isinstance(c, ProgressBar) for c in callbacks) else [EpochBar()]
    callbacks += [TensorBoardMonitor(), *([] if quiet else [LongRunNote()])]
    if stopping is not None:
        callbacks += [_MethodName(config.method), stopping]
    if place is not None and logger in (None, True):
        # Epochs after the checkpoint were logged by the interrupted run and are logged again.
        purge = None if checkpoint is None else int(checkpoint["epoch"]) + 1
        logger = TensorBoardLogger(
            place.path.parent, "", place.path.name, default_hp_metric=False, purge_step=purge
        )
    try:
        return pl.Trainer(callbacks=callbacks, logger=logger or False, **options)
    except (TypeError, ValueError) as error:  # Lightning checks the options that it is given
        raise InputError(f"trainer: {' '.join(str(error).split())}") from None


def _instantiated(value: Any) -> Any:
    """A value with every ``class_path`` and its ``init_args`` replaced by an object."""
    if isinstance(value, list):
        return [_instantiated(each) for each in value]
    if isinstance(value, Mapping) and "class_path" in value:
        init_args = value.get("init_args") or {}
        values = {name: _instantiated(each) for name, each in init_args.items()}
        return import_class(str(value["class_path"]))(**values)
    return value


def _open_resumed(
    place: RunFolder | None,
    config: RunConfig,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
) -> dict[str, Any] | None:
    """The checkpoint that is resumed, after a check that it is of the same run."""
    if place is None or place.resumed is None:
        return None
    checkpoint = load_checkpoint(find_checkpoint(place.resumed, LAST))
    check_resumable(place.resumed, checkpoint, config, model.hparams, datamodule.hparams)
    done = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
    print(f"Resuming after epoch {done} of {place.resumed}.", file=sys.stderr)
    return checkpoint


def _check_devices(trainer: pl.Trainer, may_relaunch: bool) -> None:
    """Refuse to start the user's own program once for each device."""
    if trainer.world_size > 1 and not may_relaunch and trainer.strategy.launcher is not None:
        raise InputError(
            "run() trains in one process. For several devices save the configuration with "
            "config.save(Path('run.yaml')) and use the command: pamt fit --config run.yaml "
            f"--trainer.devices {trainer.num_devices}; or start your program with torchrun."
        )


def _build_trained(
    config: RunConfig, file: Path
) -> tuple[NodeClassificationModule, GraphDataModule, pl.Trainer]:
    """Model, data and trainer for a checkpoint; classes and attributes are those of the model."""
    checkpoint = load_checkpoint(file)
    sizes = {name: model_values(checkpoint)[name] for name in SIZES}
    pl.seed_everything(config.seed, workers=True, verbose=False)
    datamodule = GraphDataModule(**config.data)
    model = _build_model(config, **sizes)
    if state := data_state(checkpoint):
        datamodule.match_model(state)
    if datamodule.num_features != model.num_features:
        raise CheckpointError(
            f"{file} was trained on {model.num_features} attributes, "
            f"{datamodule.dataset_name} has {datamodule.num_features}."
        )
    return model, datamodule, _build_trainer(config, None, None, None, quiet=False)
