"""Commands, links, options and examples in README.md and docs/ are correct."""

import ast
import csv
import itertools
import re
import shlex
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pamt_lightning
from pamt_lightning import PAMTModule, RunConfig, run
from pamt_lightning.cli.main import main
from pamt_lightning.training.config import arguments
from tests.small_run import SYNTHETIC, output_of

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
EXAMPLES = [ROOT / "README.md", ROOT / "docs" / "training.md"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text(path), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def commands() -> list[str]:
    """Each `pamt …` command of a code block once, without comments."""
    lines = [
        line.split("  #")[0].strip()
        for page in PAGES
        for block in blocks(page, "bash")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [re.search(r"(?:^|\s)pamt\s.*", line) for line in lines if not line.startswith("#")]
    return sorted({match[0].strip() for match in found if match})


FIT = [command for command in commands() if command.startswith("pamt fit")]


def test_readme_is_short_and_starts_with_the_two_commands() -> None:
    readme = text(ROOT / "README.md")
    assert len(readme.split()) <= 1500
    first = blocks(ROOT / "README.md", "bash")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make run", "make test"]
    makefile = text(ROOT / "Makefile")
    assert "\nrun:" in makefile
    assert "\ntest:" in makefile
    assert "make test" in text(ROOT / ".ci" / "run")


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_relative_links_resolve(page: Path) -> None:
    for link in re.findall(r"\]\(<?([^)>\s]+)>?\)", text(page)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


@pytest.mark.parametrize("command", FIT)
def test_fit_commands_parse(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output_of([*shlex.split(command)[1:], "--print_config"])


def options_of(capsys: pytest.CaptureFixture[str], *argv: str) -> set[str]:
    """The options in the help of a command."""
    with suppress(SystemExit):
        assert main([*argv, "--help"]) == 0
    return set(re.findall(r"--[\w.]+", capsys.readouterr().out))


def test_commands_and_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    names = {command.split()[1] for command in commands() if " " in command}
    helps = {command: options_of(capsys, command) for command in names}
    helps["bench"] |= helps["fit"]
    helps["tune"] |= helps["fit"]
    helps["datasets"] |= options_of(capsys, "datasets", "convert")
    for line in commands():
        for option in re.findall(r"--[\w.]+", line):
            assert option in helps[line.split()[1]] or option.startswith("--model"), line
    modules = [each for each in dir(pamt_lightning) if each.endswith("Module")]
    known = {each for module in modules for each in arguments(getattr(pamt_lightning, module))}
    for page in PAGES:
        for option in re.findall(r"--(?:data|stopping|trainer)\.\w+", text(page)):
            assert option in helps["fit"], (name(page), option)
        for option in re.findall(r"--model\.(\w+)", text(page)):
            assert option in known | {"help"}, (name(page), option)


def test_defaults_in_the_table_are_those_of_the_code() -> None:
    defaults = {k: p.default for k, p in arguments(PAMTModule).items()}
    page = text(ROOT / "docs" / "method.md")
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| `?([\w.]+)`? \|", page, re.MULTILINE)
    assert len(rows) >= 7
    for option, shown in rows:
        assert str(defaults[option]).lower() == shown, option


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_imports_of_examples_resolve(page: Path) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    assert hasattr(import_module(node.module), alias.name), alias.name


@pytest.mark.parametrize(
    "code",
    [code for page in EXAMPLES for code in blocks(page, "python")],
    ids=["readme", "run", "trainer"],
)
def test_python_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"dataset": "synthetic", "synthetic": SYNTHETIC}
    quick = (
        code.replace('GraphDataModule(dataset="synthetic")', "GraphDataModule(**SMALL)")
        .replace('"PAMT", dataset="synthetic"', '"PAMT", data=SMALL, trainer={"max_epochs": 3}')
        .replace('dataset="synthetic"', "data=SMALL")
        .replace('"max_epochs": 2000', '"max_epochs": 3')
        .replace("max_epochs=2000", "max_epochs=3, logger=False")
    )
    assert "SMALL" in quick
    assert "max_epochs" in quick
    scope: dict[str, Any] = {"SMALL": small}
    exec(compile(quick, "example", "exec"), scope)
    if "result" in scope:
        accuracy = scope["result"].test_acc
    else:
        accuracy = float(scope["trainer"].callback_metrics["test_acc"])
    assert 0 < accuracy <= 1


def means() -> dict[tuple[str, str, str], float]:
    """Mean accuracies in % by data set, share of edges between classes, and method."""
    found = {}
    for study in ("main", "noise"):
        with (ROOT / "docs" / "results" / study / "table.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["metric"] == "test_acc" and row["mean"]:
                    cell = row["dataset"], row["value"], row["method"]
                    found[cell] = float(row["mean"])
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_accuracies_of_a_page_are_those_of_the_studies(page: str) -> None:
    known = means()
    lines = iter(text(ROOT / page).splitlines())
    header = next(line for line in lines if line.startswith("| method | cora_ml"))
    columns = [heading.strip().partition(", ") for heading in header.strip("| ").split("|")[1:]]
    next(lines)
    count = 0
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines):
        method, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        for (dataset, _, share), cell in zip(columns, cells, strict=True):
            if cell != "–":
                shown, count = float(cell.split()[0]), count + 1
                assert shown == pytest.approx(known[dataset, share, method], abs=0.0501), line
    assert count > 30


def test_the_example_of_a_method_of_ones_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "docs" / "examples"
    monkeypatch.syspath_prepend(folder)
    assert len((folder / "two_hop.py").read_text(encoding="utf-8").splitlines()) <= 60
    config = RunConfig.create(
        "two_hop.TwoHopModule",
        data={"synthetic": SYNTHETIC, "train": 8, "val": 60},
        trainer={"max_epochs": 60},
    )
    result = run(config, quiet=True)
    assert result.record["method"] == "TwoHop"
    assert result.test_acc is not None
    assert result.test_acc > 0.5  # of three classes
