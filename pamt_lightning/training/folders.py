"""Where a run writes to, and which earlier run it resumes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_only

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import InputError
from pamt_lightning.training.stopping import LAST

RESULTS = "results.json"
_VERSION = re.compile(r"version_(\d+)$")
_FIRST_PROCESS_FOLDER = "PAMT_RUN_FOLDER"  # tells the other processes where the first one writes


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, and the ``last.ckpt`` that it resumes, if any."""

    path: Path
    resumed: Path | None = None
    is_new: bool = False  # made for this run

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run, or the model of a fold, can be resumed."""
        return (self.path / LAST).is_file() or any(self.path.glob(f"fold_*/{LAST}"))

    def remove_if_unused(self) -> None:
        """Remove a folder that was made for a run that failed before its first checkpoint."""
        if self.is_new and not self.has_checkpoint:
            shutil.rmtree(self.path, ignore_errors=True)


def choose_folder(
    data: GraphDataModule,
    method: str,
    seed: int,
    folder: Path | str | None,
    root: Path | str | None,
    resume: Path | str | None,
) -> RunFolder:
    """The folder of a run: a new one below ``root`` unless ``folder`` or ``resume`` names one.

    ``resume`` is a ``last.ckpt``, or ``last`` for that of the newest run with the same name.
    """
    given = _folder_of_first_process() if folder is None else Path(folder)
    if resume not in (None, "last"):
        file = Path(str(resume))
        place = RunFolder(given or file.parent, file)
    elif given is not None:
        has_run = RunFolder(given).has_checkpoint
        if has_run and resume is None:
            raise InputError(
                f"{given} holds a run already. Resume it with --ckpt_path last, or choose another "
                "--run_dir."
            )
        place = RunFolder(given, given / LAST if has_run else None)
    else:
        runs = Path(root or ".") / run_name(data, method, seed)
        old = [path for path in versions(runs) if RunFolder(path).has_checkpoint]
        if resume == "last" and old:
            place = RunFolder(old[-1], old[-1] / LAST)
        else:
            place = RunFolder(new_version(runs), is_new=True)
    if resume is not None and place.resumed is None:
        print("there is no last.ckpt of this run: starting it.", file=sys.stderr)
    # The processes that Lightning starts for other devices write to the same folder.
    os.environ[_FIRST_PROCESS_FOLDER] = str(place.path.absolute())
    return place


def _folder_of_first_process() -> Path | None:
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        return None
    if _FIRST_PROCESS_FOLDER not in os.environ:  # torchrun and SLURM start all of them at once
        raise InputError("a run of several processes needs a folder: give --run_dir.")
    return Path(os.environ[_FIRST_PROCESS_FOLDER])


def run_name(data: GraphDataModule, method: str, seed: int) -> str:
    """Name of the folder with all runs of one data set, method, split and initialisation."""
    name = re.sub(r"[^\w.-]+", "_", data.dataset_name)
    if data.structure_noise is not None:
        name += f"_noise{data.structure_noise}_seed{data.noise_seed}"
    fixed = data.split_name in ("given", "all")
    split = data.split_name if fixed else str(data.split_seed)
    return f"{name}/{method}/split{split}_init{seed}"


def versions(folder: Path) -> list[Path]:
    """The numbered runs in a folder, oldest first."""
    found = [(int(m[1]), p) for p in folder.glob("version_*") if (m := _VERSION.search(p.name))]
    return [path for _, path in sorted(found)]


def new_version(folder: Path) -> Path:
    """Make the folder of a new run; two processes never get the same one."""
    old = versions(folder)
    first = int(old[-1].name.rpartition("_")[2]) + 1 if old else 0
    try:
        folder.mkdir(parents=True, exist_ok=True)  # not in the loop, which would never end
        for number in count(first):
            path = folder / f"version_{number}"
            with suppress(FileExistsError):
                path.mkdir()
                break
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}.") from None
    return path
