from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from pamt_lightning.cli import datasets
from pamt_lightning.cli.datasets import run
from pamt_lightning.data.published import registry
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.errors import DatasetIntegrityError, InputError
from tests.data.published.toy import variant, write


def path_graph() -> bytes:
    """Three nodes in a row, eight features, two classes."""
    buffer = io.BytesIO()
    np.savez(buffer, edges=[[0, 1], [1, 2]], features=np.eye(3, 8), labels=[0, 1, 1])
    return buffer.getvalue()


CONTENT = path_graph()
VARIANTS = (variant({"toy.npz": CONTENT}, "http://127.0.0.1:9"),)
TOY = DatasetSpec("toy", "a path", 3, 2, 8, 3, 2, 2, VARIANTS, aliases=("plaything",))
DRAWN = DatasetSpec("drawn", "drawn at random")


@pytest.fixture(autouse=True)
def _toy_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toys = MappingProxyType({"toy": TOY, "drawn": DRAWN})
    monkeypatch.setattr(registry, "DATASETS", toys)
    monkeypatch.setattr(datasets, "DATASETS", toys)
    monkeypatch.setenv("PAMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PAMT_DATA", raising=False)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    write(tmp_path / "mine", {"toy.npz": CONTENT})
    return tmp_path / "mine"


def table(output: str) -> dict[str, list[str]]:
    """The first table of the output: cells by the first cell of the row."""
    rows = [re.split(r" {2,}", line.strip()) for line in output.split("\n\n")[0].splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_the_list_shows_cards_and_what_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    output = capsys.readouterr().out
    assert table(output) == {
        "name": ["nodes", "edges", "features", "classes", "where"],
        "toy": ["3", "2", "8", "2", "absent"],
        "drawn": ["-", "-", "-", "-", "generated"],
    }
    assert "a path; also called plaything" in output


@pytest.mark.parametrize(
    "argv", [["--root", "{}"], ["list", "--root", "{}"], ["--root", "{}", "list"]]
)
def test_the_list_shows_where_a_data_set_is_and_sees_a_wrong_size(
    argv: list[str], mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [part.format(mine) for part in argv]
    assert run(argv) == 0
    assert table(capsys.readouterr().out)["toy"][-1] == f"present: {mine}"
    (mine / "toy.npz").write_bytes(b"short")
    assert run(argv) == 0
    assert table(capsys.readouterr().out)["toy"][-1] == f"damaged: {mine / 'toy.npz'}"


def test_fetch_reads_what_it_found_and_prints_its_size(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fetch", "Plaything", "toy", "drawn", "--root", str(mine), "--offline"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"toy: 3 nodes, 2 edges in {mine}",
        "drawn: generated when it is used, nothing to fetch",
    ]
    (mine / "toy.npz").write_bytes(b"other")
    with pytest.raises(DatasetIntegrityError, match=re.escape(str(mine / "toy.npz"))):
        run(["fetch", "toy", "--root", str(mine)])


@pytest.mark.parametrize(
    ("argv", "message", "printed"),
    [
        (["fetch"], "NAME", ""),
        (["fetch", "drawn", "toyy"], r"'toyy'.*mean 'toy'", ""),  # before any download
        (["fetch", "toy", "drawn", "--offline"], "`toy` was not found", "drawn: "),
        (["verify", "--rot", "x"], "no option --rot. Did you mean '--root'", ""),
        (["convert", "toy", "x", "--num_node", "3"], "Did you mean '--num_nodes'", ""),
    ],
)
def test_what_is_wrong_is_reported(
    argv: list[str], message: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=message):
        run(argv)
    assert capsys.readouterr().out[: len("drawn: ")] == printed


def test_verify_checks_every_copy(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = tmp_path / "cache" / "toy"
    write(cached, {"toy.npz": CONTENT})
    assert run(["verify", "--root", str(mine)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"toy           good     1 file, 3 nodes, 2 edges in {mine}",
        f"toy           good     1 file, 3 nodes, 2 edges in {cached}",
        "drawn         generated, no files",
    ]
    (cached / "toy.npz").write_bytes(CONTENT[:-1] + b"x")
    assert run(["verify", "--root", str(mine)]) == 1
    good, wrong, _ = capsys.readouterr().out.splitlines()
    assert "good" in good
    assert f"WRONG    {cached / 'toy.npz'} is not the published file" in wrong


def test_verify_minds_absence_only_of_what_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify"]) == 0
    assert table(capsys.readouterr().out)["toy"] == ["absent"]
    assert run(["verify", "toy"]) == 1
    assert run(["verify", "drawn"]) == 0


def test_a_graph_is_converted_and_verified(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The registry of the toys has another data set drawn at random: `drawn`.
    options = ["--num_nodes", "60", "--num_features", "40", "--seed", "3"]
    toy = "3 nodes, 2 edges, 8 sparse attributes, 2 classes"
    for source, more, sizes in (
        (str(mine / "toy.npz"), [], toy),
        ("toy", ["--root", str(mine), "--offline"], toy),
        ("drawn", options, "60 nodes, "),
    ):
        folder = tmp_path / f"store of {Path(source).name}"
        assert run(["convert", source, str(folder), "--scale_features", "none", *more]) == 0
        assert capsys.readouterr().out.startswith(f"{folder}: {sizes}")
        assert run(["verify", str(folder)]) == 0
        assert f"{folder}  good     {sizes}" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"--num_nodes goes with .*'toy'"):
        run(["convert", "toy", str(tmp_path / "new"), "--num_nodes", "5"])


def test_listing_imports_no_numpy_and_nothing_imports_torch() -> None:
    code = (
        "import sys; from pamt_lightning.cli.datasets import run\n"
        "run([]); print('imported', sorted({'torch', 'numpy', 'scipy'} & set(sys.modules)))\n"
        "run(['verify']); run(['fetch', 'synthetic']); print('imported', 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    printed = [line for line in done.stdout.splitlines() if line.startswith("imported")]
    assert printed == ["imported []", "imported False"]
