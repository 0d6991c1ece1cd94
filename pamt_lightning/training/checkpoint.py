"""Checkpoints: finding and opening them, what they were trained with, whether they can resume."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pamt_lightning.errors import CheckpointError
from pamt_lightning.methods.base import CHECKPOINT_FORMAT
from pamt_lightning.training.config import NO_EFFECT, SIZES, RunConfig, import_class
from pamt_lightning.training.layers import Layer, ModelName, make_layer
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


def model_of(checkpoint: Mapping[str, Any]) -> ModelName:
    """The model of a checkpoint; one of an older version is found by the name of its class."""
    path = str(checkpoint["model_class"])
    model = ModelName.parse(path)
    if model.method is None:
        # A class is imported before it can be judged; a file must not choose what is imported.
        raise CheckpointError(
            f"the checkpoint is of {path}, which is not a method of this package; load it from "
            "Python with the load_from_checkpoint of that class."
        )
    name = str(checkpoint.get("method", model.name))
    return ModelName(name, model.class_path, model.method)


def model_values(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the model, with its sizes."""
    return _plain(checkpoint.get("hyper_parameters", {}))


def layer_of(checkpoint: Mapping[str, Any], *, with_data: bool) -> Layer:
    """What the checkpoint was trained with, as config files are combined."""
    model = model_of(checkpoint)
    values = {k: v for k, v in model_values(checkpoint).items() if k not in SIZES}
    content: dict[str, Any] = {"model": {"class_path": model.class_path, "init_args": values}}
    if with_data:
        content["data"] = _plain(checkpoint.get("datamodule_hyper_parameters", {}))
    layer = make_layer("the checkpoint", content)
    layer.model = model
    return layer


def data_state(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """What the checkpoint stores about its data: classes, scaling, number of nodes, hashes."""
    state: dict[str, Any] = checkpoint.get("GraphDataModule", {})
    return state


def check_resumable(
    file: Path,
    checkpoint: Mapping[str, Any],
    config: RunConfig,
    model_values_now: Mapping[str, Any],
    data_values_now: Mapping[str, Any],
) -> None:
    """Refuse to resume with other options: the run would be neither the old nor a new one."""
    if "loops" not in checkpoint:
        raise CheckpointError(
            f"{file} is for test and predict; a training is resumed from the {LAST} beside it."
        )
    if checkpoint.get("format") != CHECKPOINT_FORMAT:
        raise CheckpointError(
            f"{file} was written by an earlier version of pamt and cannot be resumed. Start the "
            f"run again: pamt fit --config {file.with_name('config.yaml')}. Test and predict still "
            f"work with {file.with_name(BEST)}."
        )
    old_seed = checkpoint.get("init_seed")
    if str(old_seed) != str(config.seed):
        raise CheckpointError(
            f"{file} was started with --seed_everything {old_seed}, not {config.seed}."
        )
    old_model = ModelName.parse(str(checkpoint["model_class"]))
    chosen = import_class(str(config.model["class_path"]))
    model = ModelName.parse(f"{chosen.__module__}.{chosen.__qualname__}")
    old_name = str(checkpoint.get("method", old_model.name))
    if old_model.class_path != model.class_path or old_name != config.method:
        raise CheckpointError(
            f"{file} is of {old_name}, the model is now {config.method}. Resume with the "
            "same model, or start a new run without --ckpt_path."
        )
    done, max_epochs = int(checkpoint["epoch"]), config.trainer.get("max_epochs")
    if max_epochs is not None and 0 <= max_epochs < done:
        raise CheckpointError(
            f"{file} has finished {done} epochs; `trainer.max_epochs` must not be lower, "
            f"got {max_epochs}."
        )
    old_data = _plain(checkpoint.get("datamodule_hyper_parameters", {}))
    for section, old, new in (
        ("model", model_values(checkpoint), model_values_now),
        ("data", old_data, data_values_now),
    ):
        for name, value in old.items():
            if new.get(name) != value and name not in NO_EFFECT[section]:
                raise CheckpointError(
                    f"{file} was trained with {section}.{name} = {value}, now it is "
                    f"{new.get(name)}. Resume with the same options, name another run with "
                    "--ckpt_path FOLDER, or start a new one without."
                )


def _plain(hparams: Mapping[str, Any]) -> dict[str, Any]:
    # Keys with an underscore are Lightning's own notes on how the class was made.
    return {k: v for k, v in hparams.items() if not k.startswith("_")}
