from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pamt_lightning.data.split_files import given_split
from pamt_lightning.errors import InputError

IDS = np.array(["a", "b", "c", "d", "e f"])
LABELS = np.array([0, 1, 0, 1, -1])
POSITIONS = {"train": [2, 0], "val": [1], "test": [3]}


def write_text(folder: Path, **changes: str) -> Path:
    for part, text in {"train": "c\na\n", "val": "b\n", "test": "d\n", **changes}.items():
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")
    return folder


def write_arrays(folder: Path, **changes: Any) -> Path:
    for part, index in {**POSITIONS, **changes}.items():
        np.save(folder / f"{part}.npy", index)
    return folder


def write_archive(folder: Path, **changes: Any) -> Path:
    keys: dict[str, Any] = {**POSITIONS, **changes}
    np.savez(folder / "split.npz", **{k: v for k, v in keys.items() if v is not None})
    return folder / "split.npz"


def message(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        given_split(path, LABELS, IDS, "graph")
    return str(caught.value)


@pytest.mark.parametrize("write", [write_text, write_arrays, write_archive])
def test_each_form_of_index_files_gives_the_same_split(tmp_path: Path, write: Any) -> None:
    split = given_split(str(write(tmp_path)), LABELS, IDS, "graph")
    assert [part.tolist() for part in split] == [[2, 0], [1], [3]]
    assert split.train.dtype == np.int64


def test_integer_ids_are_matched_by_their_digits(tmp_path: Path) -> None:
    write_text(tmp_path, train="30\n", val="10\n", test="20\n")
    split = given_split(tmp_path, np.zeros(3, np.int64), np.array([10, 20, 30]), "graph")
    assert [part.tolist() for part in split] == [[2], [0], [1]]


def test_byte_order_marks_blank_lines_and_an_empty_test_file_are_fine(tmp_path: Path) -> None:
    folder = write_text(tmp_path, train="\ufeffa\r\n\r\nc", test="")
    split = given_split(folder, LABELS, IDS, "graph")
    assert [part.tolist() for part in split] == [[0, 2], [1], []]


@pytest.mark.parametrize(
    ("val", "reason"),
    [
        (b"b\n\nx\ny\n", "val.txt, line 3: 'x' is not the id of a node"),
        (b"b\n\xff\nc\n", "val.txt, line 2: this is not UTF-8"),
        (b"b\nb\n", ": the node 'b' is listed 2 times (in `val`;"),
        (b"a\n", ": the node 'a' is listed 2 times (in `train` and `val`;"),
        (b"e f\n", ": `val` holds the node 'e f', which has no label"),
        (b"\n", ": `val` must hold at least one node"),
    ],
)
def test_a_wrong_id_is_reported_with_its_file_or_folder(
    tmp_path: Path, val: bytes, reason: str
) -> None:
    (write_text(tmp_path) / "val.txt").write_bytes(val)
    assert message(tmp_path).startswith(str(tmp_path))
    assert message(tmp_path).removeprefix(str(tmp_path)).lstrip("/").startswith(reason)


@pytest.mark.parametrize("write", [write_text, write_arrays])
@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_missing_part_is_named(tmp_path: Path, write: Callable[..., Path], part: str) -> None:
    file = next(write(tmp_path).glob(f"{part}.*"))
    file.unlink()
    assert message(tmp_path).startswith(f"{file}: this file is missing")


def test_a_path_that_holds_no_split_is_reported(tmp_path: Path) -> None:
    assert "train.txt, val.txt and test.txt" in message(tmp_path)
    assert "does not exist" in message(tmp_path / "split.npz")
    (tmp_path / "split.csv").write_text("a\n")
    assert "is neither" in message(tmp_path / "split.csv")
    write_text(tmp_path)
    assert "both .txt and .npy" in message(write_arrays(tmp_path))


@pytest.mark.parametrize(
    ("val", "reason"),
    [
        ([5], "got 5"),
        ([-1], "got -1"),
        ([1.0], "integers"),
        ([[1]], "dimension"),
        ([False, True], "numpy.flatnonzero(mask)"),
        (np.array([None]), "pickle"),
    ],
)
@pytest.mark.parametrize("write", [write_arrays, write_archive])
def test_arrays_that_are_no_positions_are_reported(
    tmp_path: Path, write: Callable[..., Path], val: Any, reason: str
) -> None:
    text = message(write(tmp_path, val=val))
    assert "val" in text.removeprefix(str(tmp_path))
    assert reason in text


def test_missing_and_damaged_arrays_are_reported(tmp_path: Path) -> None:
    assert "key `val` is missing (found: train, test)" in message(write_archive(tmp_path, val=None))
    (write_arrays(tmp_path) / "val.npy").write_bytes(b"")
    assert f"{tmp_path / 'val.npy'}: this is not a readable .npy file" in message(tmp_path)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "`split_path`.*'my.npz' has none"),
        ({**POSITIONS, "train": []}, "^my.npz: `train` must hold at least one node"),
        ({**POSITIONS, "test": [2, 0, 3]}, "^my.npz: .*`train` and `test`; 2 such node"),
    ],
)
def test_parts_inside_the_graphs_own_file_are_checked_too(given: Any, reason: str) -> None:
    arrays = {name: np.array(index, dtype=np.int64) for name, index in given.items()}
    with pytest.raises(InputError, match=reason):
        given_split(arrays, LABELS, IDS, source="my.npz")
