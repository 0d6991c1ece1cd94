"""Splits that the user gives: as files, or inside the graph's own file.

The files are ``train.txt``, ``val.txt`` and ``test.txt`` (one node id per line, as in the graph's
own file), ``.npy`` files of these names (node positions, from 0), or one ``.npz`` file with such
positions under the keys ``train``, ``val`` and ``test``. Only ``test`` may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pamt_lightning.data.own.archive import NpzArchive
from pamt_lightning.data.raw import check_positions, not_utf8
from pamt_lightning.data.splits import Split
from pamt_lightning.errors import InputError
from pamt_lightning.interop.labels import IntArray

PARTS = ("train", "val", "test")


def given_split(
    given: str | Path | Mapping[str, IntArray],
    labels: IntArray,
    node_ids: npt.NDArray[np.generic],
    source: str,
) -> Split:
    """The user's own split, from index files or the positions in each part of ``source``."""
    if isinstance(given, str | Path):
        source = str(given)
        given = _read_parts(Path(given), node_ids)
    if not given:
        raise InputError(
            "`split`='given' needs index files (`split_path`), or an .npz with train_index, "
            f"val_index and test_index; {source!r} has none."
        )
    split = Split(*(given[name] for name in PARTS))
    for name, index in zip(PARTS, split, strict=True):
        if len(index) == 0 and name != "test":
            raise InputError(f"{source}: `{name}` must hold at least one node, got none.")
        unlabelled = index[labels[index] < 0]
        if len(unlabelled):
            raise InputError(
                f"{source}: `{name}` holds the node {node_ids[unlabelled[0]].item()!r}, which has "
                f"no label ({len(unlabelled)} such node(s)). Remove it, or give it a label."
            )
    times = np.bincount(np.concatenate(split), minlength=len(labels))
    if times.max() > 1:
        node = int(times.argmax())
        parts = " and ".join(f"`{name}`" for name in PARTS if node in given[name])
        raise InputError(
            f"{source}: the node {node_ids[node].item()!r} is listed {times[node]} times (in "
            f"{parts}; {np.count_nonzero(times > 1)} such node(s)). List each node once."
        )
    return split


def _read_parts(path: Path, node_ids: npt.NDArray[np.generic]) -> dict[str, IntArray]:
    if path.is_file() and path.suffix.lower() == ".npz":
        with closing(NpzArchive(path)) as archive:
            return archive.read_split({part: part for part in PARTS}, len(node_ids))
    if not path.is_dir():
        problem = "is neither" if path.exists() else "does not exist"
        raise InputError(
            f"{path}: a split is a folder with train.txt, val.txt, test.txt (or .npy files), or an "
            f".npz file with the keys train, val, test; this {problem}."
        )
    suffixes = [s for s in (".txt", ".npy") if any((path / f"{p}{s}").exists() for p in PARTS)]
    if len(suffixes) == 2:
        raise InputError(f"{path}: there are both .txt and .npy files of a split. Keep one kind.")
    suffix = suffixes[0] if suffixes else ".txt"
    files = {part: path / (part + suffix) for part in PARTS}
    for file in files.values():
        if not file.is_file():
            raise InputError(
                f"{file}: this file is missing. A split has train.txt, val.txt and test.txt (one "
                "node id per line), or .npy files of these names; test may be empty."
            )
    if suffix == ".npy":
        return {part: _read_npy(file, len(node_ids)) for part, file in files.items()}
    position = {str(node_id): i for i, node_id in enumerate(node_ids.tolist())}
    return {part: _read_ids(file, position) for part, file in files.items()}


def _read_ids(path: Path, position: dict[str, int]) -> IntArray:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise not_utf8(path) from None
    nodes = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        # Ids are kept as written, so one may begin or end with a space.
        node = position.get(text, position.get(text.strip()))
        if node is None:
            raise InputError(
                f"{path}, line {number}: {text!r} is not the id of a node of the graph. Write one "
                "id per line, as in the graph's own file."
            )
        nodes.append(node)
    return np.array(nodes, dtype=np.int64)


def _read_npy(path: Path, num_nodes: int) -> IntArray:
    try:
        index = np.load(path, allow_pickle=False)
        if not isinstance(index, np.ndarray):
            raise ValueError("it is an .npz file")
    except (OSError, EOFError, ValueError) as error:
        raise InputError(
            f"{path}: this is not a readable .npy file of numbers ({error}). Write it with "
            "numpy.save(path, positions)."
        ) from None
    return check_positions(index, num_nodes, str(path))
