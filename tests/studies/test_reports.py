"""The files of a study: which are written, which are removed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pamt_lightning.studies.expand import Run
from pamt_lightning.studies.report.figures import draw
from pamt_lightning.studies.report.reports import write_reports
from pamt_lightning.studies.store import Store
from pamt_lightning.studies.study import Study
from tests.studies.made_up import SPLITS, SWEEP, outcomes

ALPHA = replace(SWEEP.sweeps[0], option="model.alpha", symbol="α")
PLAIN = replace(SWEEP, sweeps=(), name="plain")


def reported(folder: Path, study: Study) -> str:
    """Reports of a study, all of whose runs are done."""
    store = Store(folder / "store")
    found = outcomes(study)
    for outcome in found:
        store.add({"id": outcome.run_id, "metrics": outcome.metrics})
    runs = [Run(o.run_id, o.cell, o.split_seed, o.init_seed, (), {}) for o in found]
    return write_reports(study, runs, store, folder / "reports")


def figures(folder: Path) -> set[str]:
    return {file.name for file in (folder / "reports").iterdir() if file.suffix in (".svg", ".png")}


def both(*names: str) -> set[str]:
    return {f"{name}.{ending}" for name in names for ending in ("svg", "png")}


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (SWEEP, replace(SWEEP, sweeps=(ALPHA,)), ("sweep-model-alpha", "differences-model-alpha")),
        (SWEEP, PLAIN, ("results", "differences")),
        (PLAIN, replace(PLAIN, splits=SPLITS[:1]), ("results",)),
    ],
    ids=["another sweep", "no sweep", "no differences"],
)
def test_figures_of_an_earlier_state_are_removed(
    first: Study, then: Study, expected: tuple[str, ...], tmp_path: Path
) -> None:
    reported(tmp_path, first)
    assert figures(tmp_path) != both(*expected)
    reported(tmp_path, then)
    assert figures(tmp_path) == both(*expected)


def test_files_of_somebody_else_stay(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    others = {"own.svg", "own.png", "results-of-mine.svg", "sweep-notes.txt", "old-sweep-a.svg"}
    for name in others:
        (tmp_path / "reports" / name).write_text("mine")
    reported(tmp_path, PLAIN)
    for name in others:
        assert (tmp_path / "reports" / name).read_text() == "mine"


def test_each_figure_stands_in_the_text_by_its_file(tmp_path: Path) -> None:
    text = reported(tmp_path, PLAIN)
    drawn = [(drawing.caption, f"{drawing.name}.svg") for drawing in draw(PLAIN, outcomes(PLAIN))]
    assert re.findall(r"^!\[(.+)\]\(<(.+)>\)$", text, re.MULTILINE) == drawn
    assert [file for _, file in drawn] == ["results.svg", "differences.svg"]
