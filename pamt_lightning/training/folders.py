"""Where runs live: folders, and files in them that are written whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from pamt_lightning.errors import InputError

RESULTS = "results.json"
CONFIG = "config.yaml"
_VERSION = re.compile(r"version_(\d+)$")


def run_name(dataset: str, method: str, split: str, init_seed: int, noise: str = "") -> str:
    """Name of the folder that holds all runs of one data set, method, split and initialisation."""
    safe = re.sub(r"[^\w.-]+", "_", dataset)
    return f"{safe}{noise}/{method}/split{split}_init{init_seed}"


def versions(folder: Path) -> list[Path]:
    """The numbered runs in a folder, oldest first."""
    found = [(int(m[1]), p) for p in folder.glob("version_*") if (m := _VERSION.search(p.name))]
    return [path for _, path in sorted(found)]


def new_version(folder: Path) -> Path:
    """Make the folder of a new run; two processes never get the same one."""
    number = int(_VERSION.search(old[-1].name)[1]) + 1 if (old := versions(folder)) else 0  # type: ignore[index]
    try:
        # Apart from the loop: a dangling link raises FileExistsError for ever.
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}.") from None
    while True:
        path = folder / f"version_{number}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        except OSError as error:
            raise InputError(f"cannot make the run's folder {path}: {error.strerror}.") from None
        else:
            return path


def newest_with(folder: Path, name: str) -> Path | None:
    """The newest run in a folder that has the file ``name``."""
    having = [path for path in versions(folder) if (path / name).is_file()]
    return having[-1] if having else None


def write_whole(path: Path, write: Callable[[IO[str]], None]) -> None:
    """Write a text file under another name, then rename it: readers never see half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from None
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from None
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
