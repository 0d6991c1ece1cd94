"""Layers, imports, equations and members of other libraries: what must hold in all files."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pamt_lightning

PACKAGE = Path(pamt_lightning.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "pytorch_lightning", "lightning_fabric", "torchmetrics"}

# What each layer may import of ours; errors, files and version may be imported by all.
_BASIC = {"errors", "files", "version"}
_MATHS = {"kernels", "functional", "graph", "interop"}
_RUN = {*_MATHS, "nn", "data", "methods", "plots"}
ALLOWED = {
    **{layer: set[str]() for layer in (*_BASIC, "plots", "kernels", "interop")},
    "functional": {"kernels"},
    "nn": {"kernels", "functional"},
    "graph": {"kernels", "functional", "interop"},
    "data": _MATHS,
    "methods": {*_MATHS, "nn", "data"},
    "training": _RUN,
    "estimator": {*_RUN, "training"},
    "studies": {*_RUN, "training"},
    "benchmarks": {*_RUN, "training"},
    "cli": {*_RUN, "training", "studies", "benchmarks"},
}

# These are imported before torch, so that wrong names are reported at once.
LIGHT = (
    *("errors", "version", "files", "plots", "methods.registry"),
    *("data.published.registry", "data.splits", "training.layers", "training.config"),
    "training.memory",
    *("cli.main", "cli.arguments", "cli.choices", "cli.methods", "cli.fit", "cli.evaluate"),
    *("cli.datasets", "cli.speed", "cli.study", "cli.tune"),
)
# These only plan and show results: they never import torch, not even in a function.
WITHOUT_TORCH = (
    *("plots", "methods.registry", "training.layers", "cli.arguments", "cli.choices"),
    *("studies.study", "studies.seeds", "studies.statistics"),
    *("studies.analysis", "studies.paper"),
    *("studies.report.tables", "studies.report.figures", "studies.report.render"),
)

EQUATIONS = {
    "normalize_adjacency": "Eq. 1",
    "mask_representation": "Eq. 5",
    "mask_adjacency": "Eq. 6 and 7",
    "propagate": "Eq. 4, 8 and 9",
    "propagate_labels": "Eq. 8",
    "soft_cross_entropy": "Eq. 10",
    "blend_soft_labels": "Eq. 11",
}

# Longer files without a test file of the same path, and where their tests are.
TESTED_ELSEWHERE = {
    "benchmarks/growth.py": "cli/test_speed.py",
    "benchmarks/kernels.py": "cli/test_speed.py",
}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def files_of(*layers: str) -> list[Path]:
    return [file for file in FILES if layer_of(file) in layers]


@cache
def imports(file: Path) -> set[str]:
    """Full names of all imported modules; ``from a import b`` counts as ``a.b`` too."""
    found = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def libraries(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(file)}


# Layers --------------------------------------------------------------------------------------


def test_a_layer_imports_only_what_lies_below() -> None:
    assert {layer_of(file) for file in FILES} == {*ALLOWED, "__init__"}
    for file in files_of(*ALLOWED):
        ours = {name.split(".")[1] for name in imports(file) if name.startswith("pamt_lightning.")}
        assert ours <= {layer_of(file), *_BASIC, *ALLOWED[layer_of(file)]}, file


def test_methods_know_of_data_only_the_batch() -> None:
    for file in files_of("methods"):
        used = {name for name in imports(file) if name.startswith("pamt_lightning.data.")}
        assert all(name.startswith("pamt_lightning.data.batch.") for name in used), (file, used)


def test_what_computes_knows_no_lightning() -> None:
    for file in files_of("kernels", "functional", "nn", "graph"):
        assert not libraries(file) & (HEAVY - {"torch"}), file


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_what_plans_and_shows_knows_neither_torch_nor_lightning(name: str) -> None:
    assert not libraries(PACKAGE.joinpath(*name.split(".")).with_suffix(".py")) & HEAVY


def test_light_modules_load_nothing_heavy() -> None:
    modules = ", ".join(f"pamt_lightning.{name}" for name in LIGHT)
    code = f"import sys, {modules}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "pamt_lightning" in loaded
    assert not loaded & HEAVY


def test_each_longer_file_has_a_test_file_of_its_own() -> None:
    for file in FILES:
        path = file.relative_to(PACKAGE)
        if path.name == "__init__.py" or len(file.read_text(encoding="utf-8").splitlines()) < 45:
            continue
        own = str(path.with_name(f"test_{path.name}"))
        test = ROOT / "tests" / TESTED_ELSEWHERE.get(path.as_posix(), own)
        assert test.is_file(), f"{path} has no {test}"


# Equations -----------------------------------------------------------------------------------


def functions() -> Iterator[tuple[str, object]]:
    for file in files_of("functional"):
        module = import_module(module_of(file))
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield name, function


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_each_public_function_is_described_and_cites_its_equation(
    name: str, function: object
) -> None:
    text = inspect.getdoc(function)
    assert text
    first = text.splitlines()[0]
    assert first.endswith((".", ":", "`")) or ":math:" in first
    if name in EQUATIONS:
        assert "PAMT" in text
        assert EQUATIONS[name] in text.replace("\n", " ")


def test_every_equation_is_public() -> None:
    functional = import_module("pamt_lightning.functional")
    assert sorted(functional.__all__) == functional.__all__
    assert set(EQUATIONS) <= set(functional.__all__) <= {name for name, _ in functions()}


def test_equations_know_nothing_of_processes_and_layout() -> None:
    forbidden = {"share", "first", "first_row", "rows", "rank", "world_size"}
    for file in files_of("functional", "nn"):
        for name in imports(file):
            assert not name.startswith("torch.distributed"), file
            assert ".kernels.sharding" not in name, file
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.arguments):
                names = {each.arg for each in (*node.posonlyargs, *node.args, *node.kwonlyargs)}
                names -= {"first"} if "second" in names else set()  # a pair, not an offset
                assert not names & forbidden, (file, names)


# Members of other libraries ------------------------------------------------------------------

_PRIVATE = r"_(?!_)\w*"


def is_private(name: str) -> bool:
    return re.fullmatch(_PRIVATE, name) is not None


def is_ours(module: str | None) -> bool:
    return (module or "").split(".")[0] in ("pamt_lightning", "example")


def inherited_names(cls: type) -> set[str]:
    """Private members that a class has from other libraries."""
    found: set[str] = set()
    for base in cls.__mro__:
        if not is_ours(base.__module__):
            found |= {name for name in vars(base) if is_private(name)}
            with suppress(OSError, TypeError):  # written in C
                found |= set(re.findall(rf"self\.({_PRIVATE})", inspect.getsource(base)))
    return found


def private_uses(tree: ast.AST, namespace: Mapping[str, Any]) -> Iterator[str]:
    """Private members of other libraries that the source imports, inherits or names in a string.

    Ruff's SLF001 finds those of all objects but ``self``.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name for a in node.names for name in a.name.split(".") if is_private(name))
        elif isinstance(node, ast.ImportFrom) and not is_ours(node.module):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (name for name in names if is_private(name))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
            name = ast.unparse(node.args[1]).strip("'")
            if is_private(name):
                yield name
        elif isinstance(node, ast.ClassDef) and isinstance(namespace.get(node.name), type):
            own = rf"(?:self\.|cls\.|super\(\)\.|def |^    )({_PRIVATE})"
            used = set(re.findall(own, ast.unparse(node), re.MULTILINE))
            yield from used & inherited_names(namespace[node.name])


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_no_private_member_of_another_library_is_used(file: Path) -> None:
    namespace = vars(import_module(module_of(file)))
    assert not set(private_uses(parsed(file), namespace))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("class C(LightningCLI):\n  def _set_seed(self, *a): pass", {"_set_seed"}),
        ("class C(LightningCLI):\n  def f(self): return self._get(1)", {"_get"}),
        ("class C(LightningCLI):\n  def f(self): super()._parse_ckpt_path()", {"_parse_ckpt_path"}),
        ("class P(argparse.ArgumentParser):\n  _actions = []", {"_actions"}),
        ("class M(pl.LightningModule): pass\nclass N(M):\n  _trainer = 1", {"_trainer"}),
        ("def f(trainer): return getattr(trainer, '_results', None)", {"_results"}),
        ("import torch._C", {"_C"}),
        ("from torch import _C", {"_C"}),
        ("from torch._C import Generator", {"_C"}),
        ("class M(pl.LightningModule):\n  def _own(self): return self._own()", set()),
        ("import sys\ndef f(x): return sys.__stdout__, getattr(x, '__len__', None)", set()),
    ],
)
def test_a_private_member_would_be_found(source: str, names: set[str]) -> None:
    imported = "import argparse, torch, pytorch_lightning as pl\nfrom pytorch_lightning.cli import "
    tree = ast.parse(f"{imported}LightningCLI\n{source}")
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(tree, "example", "exec"), namespace)
    assert set(private_uses(tree, namespace)) == names


# The package ---------------------------------------------------------------------------------


def test_public_names_can_be_had_from_the_package() -> None:
    names = dir(pamt_lightning)
    assert {"Graph", "PAMTClassifier", "classify", "run", "GATModule", "__version__"} <= {*names}
    assert all(getattr(pamt_lightning, name) is not None for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'PAMT'"):
        _ = pamt_lightning.PAMT


def test_help_is_a_page() -> None:
    page = pydoc.plain(pydoc.render_doc(pamt_lightning))
    assert len(page.splitlines()) < 80
    assert "PAMTClassifier" in page


def test_the_wheel_gets_every_package_and_the_configs() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # Python 3.10 has no tomllib
    listed = re.search(r"^packages = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    folders = {file.parent.relative_to(ROOT) for file in PACKAGE.rglob("__init__.py")}
    expected = {".".join(folder.parts) for folder in folders} | {"pamt_lightning.configs"}
    assert set(re.findall(r'"([\w.]+)"', listed[1])) == expected
    assert '"pamt_lightning.configs" = "configs"' in text
    assert not (PACKAGE / "configs").exists()  # only where it is installed
