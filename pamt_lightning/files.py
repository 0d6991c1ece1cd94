"""Files: YAML is read with clear errors, text is written completely or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import yaml

from pamt_lightning.errors import InputError


class _Loader(yaml.SafeLoader):
    """Reads ``1e-3`` as a number, as YAML 1.2 does; PyYAML follows YAML 1.1 and reads text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def read_yaml(path: Path, holds: str, name: str | None = None) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping; errors say what it ``holds``.

    ``name`` is the file as the user named it, the path unless given.
    """
    name = name or str(path)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{name}{where} is not valid YAML: {error.problem}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        got = "nothing" if content is None else type(content).__name__
        raise InputError(f"{name} must hold {holds}, got {got}.")
    return content


def write_whole(path: Path, write: Callable[[IO[Any]], object], *, binary: bool = False) -> None:
    """Write a file under another name, then rename it: readers never see half a file."""
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "xb") if binary else open(part, "x", encoding="utf-8", newline="") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):  # it is renamed, or was never made
            part.unlink()
