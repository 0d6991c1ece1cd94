"""Checkpoints: finding and opening them, what they were trained with, whether they can resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import CheckpointError
from pamt_lightning.methods.base import (
    CHECKPOINT_FORMAT,
    NodeClassificationModule,
    class_path_of,
)
from pamt_lightning.methods.registry import METHODS, Method
from pamt_lightning.training.config import CONFIG, NO_EFFECT, SIZES, RunConfig
from pamt_lightning.training.layers import Layer, find_model
from pamt_lightning.training.stopping import BEST, LAST


def find_checkpoint(path: str | Path, name: str = BEST) -> Path:
    """The checkpoint that ``path`` means: itself, or the file ``name`` in that folder."""
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / name
    if file.is_file():
        return file
    hint = ""
    if name == LAST and file.name == LAST and file.parent.is_dir():
        hint = " The run was stopped before its first save: start it without --ckpt_path."
    elif str(path) in ("best", "last"):
        hint = " Name the file or the folder of its run, as `pamt fit` printed it."
    elif file.parent.is_dir() and (there := sorted(p.name for p in file.parent.glob("*.ckpt"))):
        hint = f" In {file.parent}: {', '.join(there)}."
    raise CheckpointError(f"there is no checkpoint {file}.{hint}")


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Load a checkpoint of this package without running any code that it may hold."""
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        # torch raises many types here (zip, pickle, runtime, key errors); all mean the same.
        raise CheckpointError(
            f"{file} cannot be read as a checkpoint: it is damaged or of another kind. "
            "Use another one, or train again without --ckpt_path."
        ) from None
    if not isinstance(loaded, dict) or not {"state_dict", "model_class"} <= set(loaded):
        raise CheckpointError(
            f"{file} is not a checkpoint of pamt: it lacks the weights or the name of the model."
        )
    return loaded


def model_of(checkpoint: Mapping[str, Any]) -> Method:
    """The model of a checkpoint; one of an older version is found by the name of its class."""
    model = find_model(str(checkpoint["model_class"]))
    return replace(model, name=str(checkpoint.get("method", model.name)))


def values_of(checkpoint: Mapping[str, Any], section: Literal["model", "data"]) -> dict[str, Any]:
    """The arguments of the model, with its sizes, or those of the data module."""
    key = "hyper_parameters" if section == "model" else "datamodule_hyper_parameters"
    # Keys with an underscore are Lightning's own notes on how the class was made.
    return {k: v for k, v in checkpoint.get(key, {}).items() if not k.startswith("_")}


def layer_of(checkpoint: Mapping[str, Any], *, with_data: bool) -> Layer:
    """What the checkpoint was trained with, as config files are combined."""
    model = model_of(checkpoint)
    if model.class_path not in {method.class_path for method in METHODS}:
        # A class is imported before it can be judged; a file must not choose what is imported.
        raise CheckpointError(
            f"the checkpoint is of {model.class_path}, which is not a method of this package; load "
            "it from Python with the load_from_checkpoint of that class."
        )
    if checkpoint.get("format", 0) < model.oldest_format:
        raise CheckpointError(
            f"the checkpoint is of an earlier version of {model.name}, which had another network: "
            "train again."
        )
    values = {k: v for k, v in values_of(checkpoint, "model").items() if k not in SIZES}
    data = {"data": values_of(checkpoint, "data")} if with_data else {}
    return Layer("the checkpoint", {"model": values, **data}, model)


def check_resumable(
    file: Path,
    checkpoint: Mapping[str, Any],
    config: RunConfig,
    model: NodeClassificationModule,
    datamodule: GraphDataModule,
) -> None:
    """Refuse to resume with other options: the run would be neither the old nor a new one."""
    if "loops" not in checkpoint:
        raise CheckpointError(
            f"{file} is for test and predict; a training is resumed from the {LAST} beside it."
        )
    if checkpoint.get("format") != CHECKPOINT_FORMAT:
        raise CheckpointError(
            f"{file} was written by an earlier version of pamt and cannot be resumed. Start the "
            f"run again: pamt fit --config {file.with_name(CONFIG)}. Test and predict still "
            f"work with {file.with_name(BEST)}."
        )
    done, max_epochs = int(checkpoint["epoch"]), config.trainer.get("max_epochs")
    if max_epochs is not None and 0 <= max_epochs < done:
        raise CheckpointError(
            f"{file} has finished {done} epochs; `trainer.max_epochs` must not be lower, "
            f"got {max_epochs}."
        )
    then, now = model_of(checkpoint), find_model(class_path_of(model))
    pairs: dict[str, tuple[Any, Any]] = {
        "model": (then.name, config.method),
        "class_path": (then.class_path, now.class_path),
        "seed_everything": (str(checkpoint.get("init_seed")), str(config.seed)),
    }
    parts: list[tuple[Literal["model", "data"], Any]] = [("model", model), ("data", datamodule)]
    for section, part in parts:
        pairs |= {
            f"{section}.{name}": (value, part.hparams.get(name))
            for name, value in values_of(checkpoint, section).items()
            if name not in NO_EFFECT[section]
        }
    for name, (before, after) in pairs.items():
        if before != after:
            raise CheckpointError(
                f"{file} was trained with {name} = {before}, now it is {after}. Resume with the "
                "same options, name another run with --ckpt_path FOLDER, or start a new one "
                "without."
            )
