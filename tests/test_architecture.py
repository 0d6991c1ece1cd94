"""Layers, imports, equations and members of other libraries: what must hold in all files."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import pamt_lightning
from tests.private_members import defined_names, for_typing_only, in_example, private_uses

PACKAGE = Path(pamt_lightning.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "pytorch_lightning", "lightning_fabric", "torchmetrics"}

# What each layer may import of ours; errors, files and version may be imported by all.
_BASIC = {"errors", "files", "version"}
_MATHS = {"kernels", "functional", "graph"}
ALLOWED = {
    "errors": set(),
    "version": set(),
    "files": set(),
    "plots": set(),
    "kernels": set(),
    "functional": {"kernels"},
    "nn": {"kernels", "functional"},
    "graph": {"kernels", "functional"},
    "data": _MATHS,
    "methods": {*_MATHS, "nn", "data"},
    "training": {*_MATHS, "nn", "data", "methods", "plots"},
    "studies": {*_MATHS, "nn", "data", "methods", "training", "plots"},
    "benchmarks": {*_MATHS, "nn", "data", "methods", "training", "plots"},
    "cli": {*_MATHS, "nn", "data", "methods", "training", "plots", "studies", "benchmarks"},
}

# These are imported before torch, so that wrong names are reported at once.
LIGHT = (
    *("errors", "version", "files", "plots", "methods.registry"),
    *("data.published.registry", "data.splits", "training.layers", "training.config"),
    *("cli.main", "cli.arguments", "cli.choices", "cli.methods", "cli.fit", "cli.evaluate"),
    *("cli.datasets", "cli.speed", "cli.study", "cli.tune"),
)
# These only plan and show results: they never import torch, not even in a function.
WITHOUT_TORCH = (
    *("plots", "methods.registry", "training.layers", "cli.arguments", "cli.choices"),
    *("studies.outcome", "studies.study", "studies.seeds", "studies.statistics"),
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

# Members with a leading underscore that are public: their libraries document them.
DOCUMENTED = {
    "_asdict": "collections.namedtuple",
    "_replace": "collections.namedtuple",
    "_exit": "os: ends a forked process without the clean-up of its parent",
}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(nodes: Iterable[ast.AST]) -> set[str]:
    """Full names of all imported modules; ``from a import b`` counts as ``a.b`` too."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


# Layers --------------------------------------------------------------------------------------


def test_every_file_is_in_a_layer() -> None:
    assert {layer_of(file) for file in FILES} == {*ALLOWED, "__init__"}


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_lies_below(layer: str) -> None:
    for file in (file for file in FILES if layer_of(file) == layer):
        for name in imports(ast.walk(parsed(file))):
            if name.split(".")[0] == "pamt_lightning":
                used = name.split(".")[1]
                assert used in {layer, *_BASIC, *ALLOWED[layer]}, f"{file}: {name}"


def test_methods_know_of_data_only_the_batch() -> None:
    for file in (file for file in FILES if layer_of(file) == "methods"):
        used = imports(ast.walk(parsed(file)))
        others = {n for n in used if n.startswith("pamt_lightning.data.")}
        assert all(n.startswith("pamt_lightning.data.batch.") for n in others), (file, others)


@pytest.mark.parametrize("layer", ["kernels", "functional", "nn", "graph"])
def test_what_computes_knows_no_lightning(layer: str) -> None:
    for file in (file for file in FILES if layer_of(file) == layer):
        used = {name.split(".")[0] for name in imports(ast.walk(parsed(file)))}
        assert not used & (HEAVY - {"torch"}), file


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_what_plans_and_shows_knows_neither_torch_nor_lightning(name: str) -> None:
    tree = parsed(PACKAGE.joinpath(*name.split(".")).with_suffix(".py"))
    used = imports(ast.walk(tree)) - imports(for_typing_only(tree))
    assert not {each.split(".")[0] for each in used} & HEAVY


def test_light_modules_load_nothing_heavy() -> None:
    modules = ", ".join(f"pamt_lightning.{name}" for name in LIGHT)
    code = f"import sys, {modules}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "pamt_lightning" in loaded
    assert not loaded & HEAVY


# Equations -----------------------------------------------------------------------------------


def functions() -> Iterator[tuple[str, object]]:
    for file in (PACKAGE / "functional").glob("*.py"):
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


@pytest.mark.parametrize("layer", ["functional", "nn"])
def test_equations_know_nothing_of_processes_and_layout(layer: str) -> None:
    for file in (file for file in FILES if layer_of(file) == layer):
        used = imports(ast.walk(parsed(file)))
        assert not [name for name in used if name.startswith("torch.distributed")], file
        assert not [name for name in used if ".kernels.sharding" in name], file
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.arguments):
                names = {each.arg for each in (*node.posonlyargs, *node.args, *node.kwonlyargs)}
                names -= {"first"} if "second" in names else set()  # a pair, not an offset
                forbidden = {"share", "first", "first_row", "rows", "rank", "world_size"}
                assert not names & forbidden, (file, names)


# Members of other libraries ------------------------------------------------------------------


@cache
def our_private_names() -> frozenset[str]:
    return frozenset().union(*(defined_names(parsed(file)) for file in FILES))


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_no_private_member_of_another_library_is_used(file: Path) -> None:
    module = import_module(module_of(file))
    uses = private_uses(parsed(file), vars(module), our_private_names())
    assert [use for use in uses if use.split(" of ")[0].rpartition(".")[2] not in DOCUMENTED] == []


LIGHTNING_CLI = "from pytorch_lightning.cli import LightningCLI, LightningArgumentParser\n"
MODULE = "import pytorch_lightning as pl\n"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        *(
            (f"{LIGHTNING_CLI}class C(LightningCLI):\n  def {name}(self, *a): pass", name)
            for name in (
                *("_parse_ckpt_path", "_prepare_subcommand_parser", "_run_subcommand"),
                *("_set_seed", "_get", "_parser"),
            )
        ),
        (f"{LIGHTNING_CLI}class C(LightningCLI):\n  def f(self): return self._get(1)", "_get"),
        (f"{LIGHTNING_CLI}class C(LightningCLI):\n  def f(self): super()._set_seed()", "_set_seed"),
        (
            f"{LIGHTNING_CLI}class P(LightningArgumentParser):\n  def f(self): self._actions[0]",
            "_actions",
        ),
        ("import argparse\nclass P(argparse.ArgumentParser):\n  _actions = []", "_actions"),
        ("def f(parser): return parser._actions", "_actions"),
        ("def f(parser): return parser._option_string_actions", "_option_string_actions"),
        (f"{MODULE}class M(pl.LightningModule):\n  def f(self): return self._trainer", "_trainer"),
        (
            f"{MODULE}class M(pl.LightningModule):\n  def f(self): self._current_fx_name = 'x'",
            "_current_fx_name",
        ),
        (f"{MODULE}class M(pl.LightningModule): pass\nclass N(M):\n  _trainer = 1", "_trainer"),
        ("import torch\nclass M(torch.nn.Module):\n  def f(self): self._buffers", "_buffers"),
        ("import torch\ndef f(): torch._C", "_C"),
        ("import torch\n_C = 1\ndef f(): torch._C", "_C"),
        ("from torch import Tensor\ndef _make(): pass\ndef f(): Tensor._make", "_make"),
        ("def f(trainer): return getattr(trainer, '_results', None)", "_results"),
        ("def f(writer): writer.file_writer._async_writer.close()", "_async_writer"),
        ("from torch import _C", "_C"),
        ("from torch._C import Generator", "_C"),
        ("import torch._C", "_C"),
    ],
)
def test_a_private_member_would_be_found(source: str, name: str) -> None:
    uses = in_example(source)
    assert uses
    assert all(name in use for use in uses)


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n  def __init__(self): self._x = 1\n  def f(self, other): return other._x",
        f"{MODULE}class M(pl.LightningModule):\n  def _own_helper(self): return self.trainer",
        "from __future__ import annotations\nimport sys\ndef f(): return sys.__stdout__",
        "def f(x): return x.__class__, getattr(x, '__len__', None), getattr(x, 'name')",
    ],
)
def test_members_of_our_own_are_no_finding(source: str) -> None:
    assert in_example(source) == []


# The package ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", pamt_lightning.__all__)
def test_public_names_can_be_had_from_the_package(name: str) -> None:
    assert getattr(pamt_lightning, name) is not None
    assert name in dir(pamt_lightning)


def test_other_names_cannot() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'PAMT'"):
        _ = pamt_lightning.PAMT


def test_the_wheel_gets_every_package_and_the_configs() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # Python 3.10 has no tomllib
    listed = re.search(r"^packages = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    folders = {file.parent.relative_to(ROOT) for file in PACKAGE.rglob("__init__.py")}
    expected = {".".join(folder.parts) for folder in folders} | {"pamt_lightning.configs"}
    assert set(re.findall(r'"([\w.]+)"', listed[1])) == expected
    assert '"pamt_lightning.configs" = "configs"' in text
    assert not (PACKAGE / "configs").exists()  # only where it is installed
