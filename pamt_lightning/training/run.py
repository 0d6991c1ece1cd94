"""The one way to run a method: `run` trains, tests and reports; `evaluate` uses a checkpoint."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import LambdaCallback, ProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.graph import Graph
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.methods.out_of_fold import OutOfFold
from pamt_lightning.training.checkpoint import (
    check_resumable,
    find_checkpoint,
    load_checkpoint,
    values_of,
)
from pamt_lightning.training.config import CONFIG, SIZES, RunConfig, import_class
from pamt_lightning.training.estimate import DataNote, LongRunNote
from pamt_lightning.training.folders import RESULTS, RunFolder, choose_folder
from pamt_lightning.training.progress import EpochBar
from pamt_lightning.training.quiet import silence_lightning
from pamt_lightning.training.results import result_record, write_results
from pamt_lightning.training.stopping import BEST, LAST, BestStopping
from pamt_lightning.training.tensorboard import TensorBoardMonitor

# What gloo and NCCL report when another process has ended; gloo has no type for it.
_LOST = re.compile(r"(closed|reset) by peer|broken pipe|timed out|remote process exited", re.I)


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    config: RunConfig
    record: dict[str, Any]  # what ``results.json`` holds
    model: NodeClassificationModule  # with the best state
    datamodule: GraphDataModule
    trainer: pl.Trainer
    folder: Path | None  # where the files are; None if none were written

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
    graph: Graph | None = None,
    folder: Path | str | None = None,
    root: Path | str | None = None,
    resume: Path | str | None = None,
    quiet: bool = False,
    may_relaunch: bool = False,
    datamodule: GraphDataModule | None = None,
) -> RunResult:
    """Train a method, test its best state and report.

    With the split ``all``, `run_folds` trains a model for each fold, `run` that of one ``fold``.

    Args:
        config: The run.
        graph: A graph in memory, in place of the data that the configuration names.
        folder: Where its files go; without it and without ``root`` none are written.
        root: Where a new folder is made for it, named after data, method and seeds.
        resume: The ``last.ckpt`` of a run to resume; ``last`` for that of the newest run in
            ``folder`` or ``root``, if there is one.
        quiet: Whether no progress is shown.
        may_relaunch: Whether Lightning may start the running command again for more devices.
        datamodule: The data of the configuration, if they have been read already.

    Raises:
        InputError: A value is wrong, or the data cannot be read.
        KeyboardInterrupt: The user interrupted the run; the message names how to resume it.
    """
    silence_lightning()
    if resume == "last" and not (folder or root):
        raise InputError("`resume`='last' needs `folder` or `root`.")
    with _lightning_errors():
        config = config.complete()
        if config.data.get("split") == "all" and config.data.get("fold") is None:
            raise InputError(
                "`split`='all' trains several models: use run_folds, or name a `fold`."
            )
        pl.seed_everything(config.seed, workers=True, verbose=False)
        datamodule = build_data(config, graph) if datamodule is None else datamodule
        model = _build_model(config, datamodule.num_features, datamodule.num_classes)
        if config.data.get("split") == "all":
            model.out_of_fold = OutOfFold()
        place = None
        if (folder or root or resume) and not config.trainer.get("fast_dev_run"):
            place = choose_folder(datamodule, config.method, config.seed, folder, root, resume)
        try:
            return _run(config, model, datamodule, place, quiet, may_relaunch)
        except BaseException:
            if place:
                place.remove_if_unused()
            raise


def _run(
    config: RunConfig,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
    place: RunFolder | None,
    quiet: bool,
    may_relaunch: bool,
) -> RunResult:
    checkpoint = _open_resumed(place, config, model, datamodule)
    stopping = BestStopping(**config.stopping, dirpath=str(place.path) if place else None)
    note = [] if quiet else [DataNote(datamodule), LongRunNote(datamodule)]
    name = LambdaCallback(on_save_checkpoint=partial(_add_method, config.method))
    callbacks = [*note, name, stopping]
    trainer = _build_trainer(config, callbacks, quiet=quiet, place=place, resumed=checkpoint)
    if trainer.world_size > 1 and not may_relaunch and trainer.strategy.launcher is not None:
        raise InputError(
            "run() trains in one process. For several devices save the configuration with "
            "config.save(Path('run.yaml')) and use the command: pamt fit --config run.yaml "
            f"--trainer.devices {trainer.num_devices}; or start your program with torchrun."
        )
    folder = place.path if place and trainer.is_global_zero else None
    saved = as_saved(config, datamodule)
    if folder and checkpoint is None:
        saved.save(folder / CONFIG)
    _fit(trainer, model, datamodule, place)
    if stopping.best_state:  # a finished run that is resumed is not trained and has its last state
        model.load_state_dict(stopping.best_state)
    if not stopping.best_state and not config.trainer.get("fast_dev_run"):
        # With max_epochs=0 Lightning skips the training and its hooks.
        raise InputError("nothing was trained: `trainer.max_epochs` must be 1 or more.")
    tested: Mapping[str, float] = {}
    if config.test and datamodule.split and len(datamodule.split.test):
        best = place.path / BEST if place and (place.path / BEST).is_file() else None
        (tested,) = trainer.test(
            model, datamodule=datamodule, ckpt_path=best, verbose=False, weights_only=True
        )
    record = result_record(config, trainer, model, datamodule, stopping, tested)
    if folder:
        saved.save(folder / CONFIG)
        write_results(folder / RESULTS, record)
    return RunResult(config, record, model, datamodule, trainer, place.path if place else None)


def _fit(
    trainer: pl.Trainer,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
    place: RunFolder | None,
) -> None:
    resumed = place.resumed if place else None
    try:
        trainer.fit(model, datamodule=datamodule, ckpt_path=resumed, weights_only=True)
    except SystemExit:  # what Lightning makes of Ctrl-C
        raise KeyboardInterrupt(f"interrupted; {what_is_left(place)}") from None
    except RuntimeError as error:
        if trainer.world_size == 1 or not _LOST.search(str(error)):
            raise
        raise InputError(f"another process of this run has ended; {what_is_left(place)}") from None


def what_is_left(place: RunFolder | None) -> str:
    """How an interrupted run can be resumed."""
    if place and place.has_checkpoint:
        return f"resume with: pamt fit --ckpt_path {place.path}"
    removed = f", and {place.path} is removed" if place and place.is_new else ""
    return f"nothing was saved yet{removed}."


def predict_mean(models: Sequence[NodeClassificationModule], datamodule: GraphDataModule) -> Tensor:
    """The mean of the class probabilities that modules in memory give to every node."""
    first = models[0]
    datamodule.setup("predict")
    if first.predicts_from_labels:
        datamodule.use_all_labels()
    dtype = first.dtype if isinstance(first.dtype, torch.dtype) else torch.float32
    batch = GraphBatch.from_graph(datamodule.graph, dtype, datamodule.effective_batch_size)
    found = []
    for model in models:
        was_training = model.training
        model.eval()
        with torch.no_grad():
            found.append(model.predict_nodes(batch).probs.cpu())
        model.train(was_training)
    return torch.stack(found).mean(0)


def evaluate(
    config: RunConfig,
    file: Path,
    stage: Literal["validate", "test", "predict"],
    graph: Graph | None = None,
    datamodule: GraphDataModule | None = None,
) -> tuple[Any, GraphDataModule]:
    """What a checkpoint gives on some data: metrics by name, or class probabilities ``[N, C]``.

    ``datamodule`` are the data of the configuration, if they have been read already.
    """
    silence_lightning()
    checkpoint = load_checkpoint(file)
    with _lightning_errors():
        pl.seed_everything(config.seed, workers=True, verbose=False)
        datamodule = build_data(config, graph) if datamodule is None else datamodule
        model = _build_model(config, *(values_of(checkpoint, "model")[k] for k in SIZES))
        if state := checkpoint.get("GraphDataModule"):
            datamodule.match_model(state)
        if datamodule.num_features != model.num_features:
            raise CheckpointError(
                f"{file} was trained on {model.num_features} attributes, "
                f"{datamodule.dataset_name} has {datamodule.num_features}."
            )
        if model.predicts_from_labels:
            datamodule.setup("test")  # a prediction alone makes no split
            if datamodule.split_name == "all":
                datamodule.use_all_labels()
        options = {} if stage == "predict" else {"verbose": False}
        call = getattr(_build_trainer(config, []), stage)
        found = call(model, datamodule=datamodule, ckpt_path=file, weights_only=True, **options)
    return found[0], datamodule


@contextmanager
def _lightning_errors() -> Iterator[None]:
    """Lightning's exception for a wrong option is an error of the input."""
    try:
        yield
    except MisconfigurationException as error:
        raise InputError(" ".join(str(error).split())) from None


def _add_method(name: str, trainer: Any, model: Any, checkpoint: dict[str, Any]) -> None:
    checkpoint["method"] = name


def as_saved(config: RunConfig, datamodule: GraphDataModule) -> RunConfig:
    """The configuration as it is written: no file can name a graph in memory."""
    if not datamodule.in_memory:
        return config
    return config.with_options({"data.path": "<graph in memory>"})


def build_data(config: RunConfig, graph: Graph | None) -> GraphDataModule:
    """The data module of a run; a graph in memory takes the place of data that are named."""
    options = dict(config.data)
    if graph is not None:
        named = {name: options.pop(name, None) for name in ("dataset", "path")}
        if any(named.values()):
            raise InputError(f"Give `graph`, or data by name, not both, got {named}.")
    return GraphDataModule(**options, graph=graph)


def _build_model(
    config: RunConfig, num_features: int, num_classes: int
) -> NodeClassificationModule:
    model_class: type[NodeClassificationModule] = import_class(str(config.model["class_path"]))
    return model_class(num_features, num_classes, **config.model["init_args"])


def _build_trainer(
    config: RunConfig,
    own_callbacks: list[Any],
    *,
    quiet: bool = False,
    place: RunFolder | None = None,
    resumed: Mapping[str, Any] | None = None,
) -> pl.Trainer:
    options = {name: _instantiated(value) for name, value in config.trainer.items()}
    callbacks = options.pop("callbacks", None) or []
    callbacks = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    logger = options.pop("logger", None)
    if quiet:
        options["enable_progress_bar"] = False
    elif options.get("enable_progress_bar") is not False:
        callbacks += [] if any(isinstance(c, ProgressBar) for c in callbacks) else [EpochBar()]
    callbacks += [TensorBoardMonitor(), *own_callbacks]
    if place is not None and logger in (None, True):
        # Epochs after the checkpoint were logged by the interrupted run and are logged again.
        purge = None if resumed is None else int(resumed["epoch"]) + 1
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
    check_resumable(place.resumed, checkpoint, config, model, datamodule)
    done = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
    print(f"resuming after epoch {done} of {place.resumed}.", file=sys.stderr)
    return checkpoint
