from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pamt_lightning.data.own.csv_file import CsvFile
from pamt_lightning.errors import InputError


@pytest.mark.parametrize(
    ("text", "delimiter"), [("a,b;c\n", ","), ("a;b;c\n", ";"), ("a\tb\n", "\t"), ("a\n", ",")]
)
def test_the_separator_is_that_with_most_columns(text: str, delimiter: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert CsvFile(tmp_path / "t.csv").delimiter == delimiter


def test_rows_know_the_line_on_which_they_start(tmp_path: Path) -> None:
    text = '\ufeffa,b\n1,"x\ny"\n\n2,z\n'
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "t.csv.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    for name in ("t.csv", "t.csv.gz"):
        found = CsvFile(tmp_path / name)
        assert found.columns == ["a", "b"]
        assert list(found.rows()) == [(2, ["1", "x\ny"]), (5, ["2", "z"])]
        assert found.line_of(1) == 5
        assert str(found.error(5, "wrong.")) == f"{tmp_path / name}, line 5: wrong."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file is empty"),
        ("a,,c\n", "line 1: column 2 of the header has no name"),
        ("a,b,a\n", "line 1: the header has the column `a` twice"),
        ("a,b\n1\n", "line 2: the row has 1 cells, but the header has 2 columns"),
        ('a,b\n1,2\n1,"2\n', "line 3: the row cannot be split"),
    ],
)
def test_defects_are_named_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        list(CsvFile(tmp_path / "t.csv").rows())
