"""Opening checkpoints: which file is meant, is it whole, and what was it trained with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pamt_lightning.errors import CheckpointError
from pamt_lightning.training.stopping import BEST, LAST

# Where files are found and how often figures are logged is no part of what is computed.
_MAY_CHANGE = ("root", "offline", "log_every_n_epochs")


def find_checkpoint(path: str, name: str = BEST) -> Path:
    """The file that is meant by ``path``: itself, or the one called ``name`` in that folder."""
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / name
    if not file.is_file():
        hint = ""
        if name == LAST and file.name == LAST and file.parent.is_dir():
            hint = " The run was stopped before its first save: start it without --ckpt_path."
        elif path in ("best", "last"):
            hint = " Name the file or its run's folder, as `pamt fit` printed it."
        elif file.parent.is_dir() and (there := sorted(p.name for p in file.parent.glob("*.ckpt"))):
            hint = f" In {file.parent} there is: {', '.join(there)}."
        raise CheckpointError(f"there is no checkpoint {file}.{hint}")
    return file


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Load a checkpoint of this package without running any code that it might hold."""
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        # torch raises many types here (zip, pickle, runtime, key errors); all mean the same.
        raise CheckpointError(
            f"{file} cannot be read as a checkpoint: it is damaged or of another kind. "
            "Take another one, or train anew without --ckpt_path."
        ) from None
    if not isinstance(loaded, dict) or not {"state_dict", "model_class"} <= set(loaded):
        raise CheckpointError(
            f"{file} is not a checkpoint of pamt: it lacks the weights or the name of the model."
        )
    return loaded


def is_resumable(checkpoint: dict[str, Any]) -> bool:
    """Whether a checkpoint holds a training that can go on (``last.ckpt``)."""
    return "loops" in checkpoint


def model_config(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The model's section of a configuration, as it was when the checkpoint was written."""
    name = str(checkpoint["model_class"])
    if not name.startswith("pamt_lightning."):
        # A name is imported before it can be judged; a file must not choose what is imported.
        raise CheckpointError(
            f"the checkpoint is of {name}, which is not of this package; "
            "load it from Python with that class's load_from_checkpoint."
        )
    return {"class_path": name, "init_args": _plain(checkpoint.get("hyper_parameters", {}))}


def data_config(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The data's section of a configuration, as it was when the checkpoint was written."""
    return _plain(checkpoint.get("datamodule_hyper_parameters", {}))


def data_state(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """What the checkpoint knows of its data: class names, number of nodes, hashes."""
    state: dict[str, Any] = checkpoint.get("GraphDataModule", {})
    return state


def check_resumed_options(
    file: Path,
    checkpoint: dict[str, Any],
    model_class: str,
    model_options: Mapping[str, Any],
    data_options: Mapping[str, Any],
    init_seed: int,
    max_epochs: int | None,
) -> None:
    """Refuse other options: the run would be neither the old one nor a new one."""
    if not is_resumable(checkpoint):
        raise CheckpointError(
            f"{file} is for test and predict; a training goes on from the {LAST} beside it."
        )
    if str(checkpoint.get("init_seed")) != str(init_seed):
        raise CheckpointError(
            f"{file} was started with --seed_everything {checkpoint.get('init_seed')}, "
            f"not {init_seed}."
        )
    if checkpoint["model_class"] != model_class:
        old, new = (name.rpartition(".")[2] for name in (checkpoint["model_class"], model_class))
        raise CheckpointError(
            f"{file} is of a {old}, now the model is a {new}. "
            "Go on with the same model, or start a new run without --ckpt_path."
        )
    done = int(checkpoint["epoch"])
    if max_epochs is not None and 0 <= max_epochs < done:
        raise CheckpointError(
            f"{file} has {done} epochs behind it; `trainer.max_epochs` must not be below, "
            f"got {max_epochs}."
        )
    there = {
        "model": model_config(checkpoint)["init_args"],
        "data": data_config(checkpoint),
    }
    here = {"model": model_options, "data": data_options}
    for section, options in there.items():
        for name, old in options.items():
            new = here[section].get(name)
            if new != old and name not in _MAY_CHANGE:
                raise CheckpointError(
                    f"{file} was trained with {section}.{name} = {old}, now it is {new}. "
                    "Go on with the same options, name another run by --ckpt_path FOLDER, or "
                    "start a new one without."
                )


def _plain(hparams: dict[str, Any]) -> dict[str, Any]:
    # Keys with an underscore are Lightning's own notes on how the class was made.
    return {k: v for k, v in hparams.items() if not k.startswith("_")}
