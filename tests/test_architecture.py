from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import pamt_lightning

PACKAGE = Path(pamt_lightning.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 350

# What each layer may import of ours; nothing points back up.
ALLOWED = {
    "errors": set(),
    "plain": set(),
    "version": set(),
    "functional": set(),
    "graph": {"errors"},
    "nn": {"functional"},
    "data": {"graph", "errors", "plain"},
    "modules": {"graph", "functional", "nn", "errors", "plain"},
    "methods": {"errors"},
    "spelling": set(),
    "config_layers": {"data", "errors", "methods", "spelling"},
    "config_files": {"config_layers", "data", "errors", "methods"},
    "plots": set(),
    "runs": {"errors"},
    "results": {"graph", "runs", "version"},
    "callbacks": {"graph", "modules", "nn", "functional", "plots", "errors"},
}

# These answer at once, so nothing heavy is loaded with them.
_READING = sorted(f"data/{path.name}" for path in (PACKAGE / "data").glob("*.py"))
LIGHT = (
    *("main.py", "config_files.py", "config_layers.py", "datasets_command.py", "methods.py"),
    *(name for name in _READING if name not in ("data/__init__.py", "data/datamodule.py")),
)
# `experiments`: what only shows results, and what `pamt study` needs before it runs anything.
SHOWING = (
    *("outcome", "study", "statistics", "analysis", "tables", "wording", "markdown", "csv_files"),
    *("fields", "figures", "panels", "sweep_panels", "html_report", "html_style", "paper"),
)
PLANNING = (
    *("seeds", "fingerprint", "store", "study_files", "expand", "runner", "worker", "space"),
    *("options", "progress", "tune", "tune_command"),
)
HEAVY = {"torch", "pytorch_lightning", "lightning", "torchmetrics", "lightning_fabric"}

EQUATIONS = {
    "normalize.normalize_adjacency": "Eq. 1",
    "similarity.mask_representation": "Eq. 5",
    "similarity.edge_similarity": "Eq. 6",
    "similarity.mask_adjacency": "Eq. 7",
    "propagation.propagate": "Eq. 4, 8 and 9",
    "losses.soft_cross_entropy": "Eq. 10",
    "momentum.blend_soft_labels": "Eq. 11",
}


def files_of(layer: str) -> list[Path]:
    return [*PACKAGE.glob(f"{layer}.py"), *PACKAGE.glob(f"{layer}/**/*.py")]


def imports(nodes: Iterator[ast.AST] | list[ast.stmt]) -> set[str]:
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


def at_module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that runs on import: not the bodies of functions, nor what only mypy reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from at_module_level(node)


def test_no_layer_is_missing() -> None:
    for layer in ALLOWED:
        assert files_of(layer), layer


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_lies_below(layer: str) -> None:
    for file in files_of(layer):
        for name in imports(ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
            if name.split(".")[0] == "pamt_lightning":
                assert name.split(".")[1] in {layer, *ALLOWED[layer]}, f"{file}: {name}"


@pytest.mark.parametrize("layer", ["functional", "nn", "graph", "results"])
def test_what_computes_knows_no_lightning(layer: str) -> None:
    for file in files_of(layer):
        used = imports(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        assert not {name.split(".")[0] for name in used} & (HEAVY - {"torch"}), file


def test_plots_know_neither_torch_nor_lightning() -> None:
    used = imports(ast.walk(ast.parse((PACKAGE / "plots.py").read_text(encoding="utf-8"))))
    assert not {name.split(".")[0] for name in used} & HEAVY


@pytest.mark.parametrize("name", SHOWING)
def test_what_shows_results_knows_neither_torch_nor_lightning_nor_how_they_came(name: str) -> None:
    tree = ast.parse((PACKAGE / "experiments" / f"{name}.py").read_text(encoding="utf-8"))
    for used in imports(ast.walk(tree)):
        top, *rest = used.split(".")
        assert top not in HEAVY, used
        if top == PACKAGE.name:
            allowed = rest[0] in ("errors", "plots", "runs", "version")
            assert allowed or (rest[0] == "experiments" and rest[1] in SHOWING), used


@pytest.mark.parametrize("name", [*PLANNING, "reports", "command"])
def test_what_plans_runs_loads_nothing_heavy(name: str) -> None:
    tree = ast.parse((PACKAGE / "experiments" / f"{name}.py").read_text(encoding="utf-8"))
    used = imports(at_module_level(tree))
    assert not {module.split(".")[0] for module in used} & HEAVY
    ours = {module.split(".")[1] for module in used if module.split(".")[0] == PACKAGE.name}
    assert not ours & {"cli", "cli_parser", "modules", "callbacks", "graph", "functional", "nn"}


def test_nothing_below_knows_of_experiments() -> None:
    above = {"experiments", "main"}
    for file in FILES:
        if file.relative_to(PACKAGE).parts[0].removesuffix(".py") not in above:
            used = imports(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            assert not [n for n in used if n.startswith("pamt_lightning.studies")], file
    tree = ast.parse((PACKAGE / "main.py").read_text(encoding="utf-8"))
    used = imports(at_module_level(tree))  # only as far as a command needs it
    assert not [name for name in used if name.startswith("pamt_lightning.studies")]


@pytest.mark.parametrize(
    "argv",
    [
        *(["study"], ["study", "--help"], ["study", "nowhere.yaml"]),
        *(["bench", "--help"], ["bench", "--jobs", "0"]),
    ],
)
def test_quick_answers_of_many_runs_do_not_wait_for_torch(argv: list[str]) -> None:
    code = (
        "import sys; from pamt_lightning.cli.main import main\n"
        f"try: main({argv!r})\nexcept SystemExit: pass\n"
        "assert 'pamt_lightning.studies.command' in sys.modules\n"
        f"heavy = {HEAVY!r} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", LIGHT)
def test_light_files_import_nothing_heavy(name: str) -> None:
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    assert not {used.split(".")[0] for used in imports(at_module_level(tree))} & HEAVY


def test_light_commands_load_nothing_heavy() -> None:
    modules = ["pamt_lightning.cli.main", "pamt_lightning.cli.datasets"]
    modules += [f"pamt_lightning.{name[:-3].replace('/', '.')}" for name in LIGHT]
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "pamt_lightning" in loaded
    assert not loaded & HEAVY


def test_the_imports_that_run_are_told_from_those_that_do_not() -> None:
    source = """
import a
if TYPE_CHECKING:
    import b
def f():
    import c
class C:
    import d
    def g(self):
        from e import f
try:
    from g.h import i
except ImportError:
    pass
"""
    assert imports(at_module_level(ast.parse(source))) == {"a", "d", "g.h.i"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_file_is_too_long_to_read(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def functions() -> Iterator[tuple[str, object]]:
    for file in files_of("functional"):
        if file.stem != "__init__":
            module = import_module(f"pamt_lightning.functional.{file.stem}")
            for name, function in inspect.getmembers(module, inspect.isfunction):
                if function.__module__ == module.__name__ and not name.startswith("_"):
                    yield f"{file.stem}.{name}", function


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_each_public_function_says_what_it_does(name: str, function: object) -> None:
    text = inspect.getdoc(function)
    assert text
    first = text.splitlines()[0]
    assert first.endswith((".", ":", "`")) or ":math:" in first
    if name in EQUATIONS:
        assert "PAMT" in text
        assert EQUATIONS[name] in text.replace("\n", " ")


def test_every_equation_is_cited_by_a_function() -> None:
    assert set(EQUATIONS) <= {name for name, _ in functions()}


def test_the_public_names_of_the_equations_are_all_there() -> None:
    functional = import_module("pamt_lightning.functional")
    assert sorted(functional.__all__) == functional.__all__
    assert {name.split(".")[1] for name in EQUATIONS} <= set(functional.__all__)
    for name in functional.__all__:
        assert callable(getattr(functional, name))


@pytest.mark.parametrize("name", pamt_lightning.__all__)
def test_public_names_can_be_had_from_the_package(name: str) -> None:
    assert getattr(pamt_lightning, name) is not None
    assert name in dir(pamt_lightning)


def test_other_names_cannot() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'PAMT'"):
        _ = pamt_lightning.PAMT
