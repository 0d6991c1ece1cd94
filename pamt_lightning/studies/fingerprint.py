"""What makes a run the run it is: its configuration, its data and the code that computes it."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from pamt_lightning.data.published.hashing import sha256_of
from pamt_lightning.data.splits import resolve_split_seed
from pamt_lightning.errors import InputError

_PACKAGE = __name__.split(".")[0]
# What every run goes through, whatever its method.
_ALWAYS = (f"{_PACKAGE}.data.datamodule", f"{_PACKAGE}.callbacks.stopping")
# To be raised when other figures are taken of a run than before (`worker`, `edges`).
_FIGURES = 1
# Where files lie and what is shown on the way is no part of what is computed.
_NO_MATTER = {
    "": ("run_dir", "ckpt_path", "test_after_fit", "config"),
    "data": ("root", "offline"),
    "stopping": ("save_seconds",),
    "trainer": (
        *("logger", "enable_progress_bar", "default_root_dir", "enable_model_summary"),
        *("log_every_n_steps", "profiler", "enable_autolog_hparams"),
    ),
    "init_args": ("log_every_n_epochs",),
}


def digest(content: object) -> str:
    """Short hash of plain values; the order of keys does not matter."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def what_matters(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of `pamt fit` without seeds, and without what changes no result."""
    kept = deepcopy(dict(config))
    for name in _NO_MATTER[""]:
        kept.pop(name, None)
    for section in ("data", "stopping", "trainer"):
        for name in _NO_MATTER[section]:
            kept.get(section, {}).pop(name, None)
    for name in _NO_MATTER["init_args"]:
        kept.get("model", {}).get("init_args", {}).pop(name, None)
    kept.pop("seed_everything", None)
    data = kept.get("data", {})
    data.pop("split_seed", None)
    for name in ("path", "split_path"):
        if data.get(name) is not None:
            data[name] = _content_hash(Path(data[name]).expanduser())
    return kept


def same_apart_from(names: Iterable[str], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two configurations are the same but for options such as ``data.noise_seed``."""
    left, right = deepcopy(dict(one)), deepcopy(dict(other))
    for name in names:
        *sections, last = name.split(".")
        for content in (left, right):
            place: Any = content
            for section in sections:
                place = place.get(section, {})
                place = place.get("init_args", place) if section == "model" else place
            place.pop(last, None)
    return digest(left) == digest(right)


def run_id(
    config: Mapping[str, Any], split_seed: str, init_seed: int, options: Mapping[str, Any]
) -> str:
    """The id of a run.

    Args:
        config: What `what_matters` of its configuration, the version of its code included.
        split_seed: The split.
        init_seed: The initialisation.
        options: What else tells this run from others of the configuration (the noise's seed).
    """
    seeds = {"split": resolve_split_seed(split_seed), "init": init_seed, **options}
    return digest({"config": config, "seeds": seeds, "figures": _FIGURES})


@lru_cache(maxsize=64)
def code_version(class_path: str) -> str:
    """Hash of the source that a run of this class goes through.

    That is the module of the class, of the data and of the stopping rule, and all that they import,
    name by name, from this package and, for a class of the user's own, from modules that lie beside
    it. Comments and docstrings do not count: rewording one must not make a finished run worthless,
    and a change to GAT says nothing about a run of PAMT.
    """
    module, _, name = class_path.rpartition(".")
    try:
        home = getattr(import_module(module), name).__module__
    except (ImportError, AttributeError):
        raise InputError(f"there is no class {class_path}.") from None
    found: dict[str, str] = {}
    waiting = [home, *_ALWAYS]
    while waiting:
        module = waiting.pop()
        if module not in found:
            tree = _tree(module)
            found[module] = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
            waiting += _imported(module, home.split(".")[0])
    return digest(found)


def _counts(module: str, own: str) -> bool:
    """Whether a module is ours, of the package ``own``, or lies beside that in a user's folder."""
    top = module.split(".")[0]
    if top in (_PACKAGE, own):
        return True
    if own == _PACKAGE or top in sys.stdlib_module_names:
        return False
    folder = _folder(own)
    # What is installed lies beside everything else that is.
    return folder is not None and "-packages" not in folder.name and folder == _folder(top)


def _folder(top: str) -> Path | None:
    """Where a top-level module or package lies; none for what has no file."""
    try:
        spec = find_spec(top)
    except ValueError:  # a module that was made by hand has none
        spec = None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    return path.parents[1] if spec.submodule_search_locations else path.parent


def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


@cache
def _tree(module: str) -> ast.Module:
    """The source of a module without docstrings; a tree has no comments anyway."""
    tree = ast.parse(_source(module))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                del body[0]
    return tree


def _imported(module: str, own: str) -> list[str]:
    """The modules of ours and of the user that a module's names come from."""
    spec = find_spec(module)
    package = "" if spec is None else spec.parent or ""
    found = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if _counts(alias.name, own)]
        elif isinstance(node, ast.ImportFrom):
            source = _source_of(node, package)
            if _counts(source, own):
                found += [_home(source, alias.name) for alias in node.names]
    return found


def _source_of(node: ast.ImportFrom, package: str) -> str:
    """The full name of what ``from … import`` imports from."""
    name = node.module or ""
    return resolve_name("." * node.level + name, package) if node.level else name


def _home(module: str, name: str) -> str:
    """The module that ``from module import name`` really reads: not the package that passes it on.

    Else all of a package would count wherever one of its names is used.
    """
    spec = find_spec(module)
    if spec is None or spec.submodule_search_locations is None:
        return module
    if find_spec(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return _source_of(node, module)
    return module


def _content_hash(path: Path) -> str:
    """Hash of a user's file, or of all files that lie in the folder (results may lie deeper)."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    if not all(file.is_file() for file in files) or not files:
        raise InputError(f"there is no file or folder {path}.")
    return digest([[str(file.relative_to(path)), sha256_of(file)] for file in files])
