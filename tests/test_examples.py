"""The scripts of docs/examples run, are short, and do what they promise."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "examples"
MUST_PRINT = {
    "from_networkx.py": (r"(3[2-4]) of 34 members", 32),
    "from_pandas.py": (r"([\d.]+)% are right", 90),
    "from_pyg.py": (r"([\d.]+)% of the test nodes", 60),
    "from_scipy.py": (r"([\d.]+)% of the hidden labels.*\nTrue", 90),
    "grid_search.py": (r"in five folds: \[0\.(\d\d?).*\]\n{.*'method'", 9),
}


def test_each_door_has_an_example() -> None:
    names = {file.name for file in FOLDER.glob("from_*.py")} | {"grid_search.py"}
    assert names == {*MUST_PRINT}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MUST_PRINT)
def test_the_example_runs_and_is_short(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in re.findall(r"(?:from|import) (\w+)", (FOLDER / name).read_text("utf-8")):
        if library in ("networkx", "torch_geometric", "sklearn"):
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    assert len(lines) <= 25
    runpy.run_path(str(FOLDER / name))
    pattern, least = MUST_PRINT[name]
    output = capsys.readouterr().out
    found = re.search(pattern, output)
    assert found, output
    assert float(found[1]) >= least
