"""Splits that the user gives: as files, or inside the graph's own file.

A split in files is either a folder with one file per part, all of one kind:

* ``train.txt``, ``val.txt``, ``test.txt``: one node id per line, as in the graph's own file; or
* ``train.npy``, ``val.npy``, ``test.npy``: node positions (integers from 0),

or one ``.npz`` file with node positions under the keys ``train``, ``val`` and ``test``. All three
parts must be there; ``test`` may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pamt_lightning.data.own.archive import NpzArchive
from pamt_lightning.data.raw import IntArray
from pamt_lightning.data.splits import Split
from pamt_lightning.errors import InputError

PARTS = ("train", "val", "test")


def read_index_split(
    path: str | Path, labels: IntArray, node_ids: npt.NDArray[np.generic]
) -> Split:
    """Read a split from a folder or an ``.npz`` file (layout: top of this module).

    Args:
        path: The folder or the ``.npz`` file.
        labels: ``[n]`` class numbers of the graph, -1 where unknown.
        node_ids: ``[n]`` ids of the graph.

    Raises:
        InputError: A file has a defect; the message names the file and the line or key.
    """
    path = Path(path)
    if path.is_dir():
        parts = _read_folder(path, node_ids)
    elif path.is_file() and path.suffix.lower() == ".npz":
        with NpzArchive.open(path) as archive:
            for name in PARTS:
                if name not in archive:
                    raise InputError(
                        f"{path}: key `{name}` is missing (found: {', '.join(archive.keys)}). "
                        "Store node positions under train, val and test."
                    )
            parts = {name: archive.read_positions(name, 1, len(node_ids)) for name in PARTS}
    else:
        problem = "is neither" if path.exists() else "does not exist"
        raise InputError(
            f"{path}: a split is a folder with train.txt, val.txt, test.txt (or .npy files), or an "
            f".npz file with the keys train, val, test; this {problem}."
        )
    return index_split(parts, labels, node_ids, source=str(path))


def index_split(
    parts: Mapping[str, IntArray],
    labels: IntArray,
    node_ids: npt.NDArray[np.generic],
    *,
    source: str,
) -> Split:
    """A split from node positions that the user gave.

    Args:
        parts: Positions by part name: ``train``, ``val``, ``test``.
        labels: ``[n]`` class numbers, -1 where unknown.
        node_ids: ``[n]`` ids, used in error messages.
        source: Where the parts come from, used in error messages.

    Raises:
        InputError: A part is empty, parts overlap, or a node has no label.
    """
    part_of = np.full(len(labels), -1)
    for number, name in enumerate(PARTS):
        index = parts[name]
        if len(index) == 0 and name != "test":
            raise InputError(f"{source}: `{name}` must name at least one node, got none.")
        for node in index[labels[index] < 0][:1].tolist():
            raise InputError(
                f"{source}: `{name}` names node {_id_text(node_ids, node)}, which has no label. "
                f"Remove it or give it one ({np.count_nonzero(labels[index] < 0)} such node(s))."
            )
        for node in index[part_of[index] >= 0][:1].tolist():
            raise InputError(
                f"{source}: the node {_id_text(node_ids, node)} is in `{PARTS[part_of[node]]}` and "
                f"in `{name}` ({np.count_nonzero(part_of[index] >= 0)} such node(s)). Name each "
                "node in one part only."
            )
        times_used = np.bincount(index, minlength=len(labels))
        if times_used.max() > 1:
            raise InputError(
                f"{source}: `{name}` names the node {_id_text(node_ids, int(times_used.argmax()))} "
                f"{times_used.max()} times. Name each node once."
            )
        part_of[index] = number
    return Split(parts["train"], parts["val"], parts["test"], num_nodes=len(labels))


def _read_folder(folder: Path, node_ids: npt.NDArray[np.generic]) -> dict[str, IntArray]:
    suffixes = [s for s in (".txt", ".npy") if any((folder / f"{p}{s}").exists() for p in PARTS)]
    if len(suffixes) == 2:
        raise InputError(f"{folder}: there are both .txt and .npy files of a split. Keep one kind.")
    suffix = suffixes[0] if suffixes else ".txt"
    files = {part: folder / (part + suffix) for part in PARTS}
    for file in files.values():
        if not file.is_file():
            raise InputError(
                f"{file}: this file is missing. A folder with a split holds train.txt, val.txt and "
                "test.txt (one node id per line), or .npy files of these names; test may be empty."
            )
    if suffix == ".npy":
        return {part: _read_positions(file, len(node_ids)) for part, file in files.items()}
    position = {str(node_id): i for i, node_id in enumerate(node_ids.tolist())}
    return {part: _read_ids(file, position) for part, file in files.items()}


def _read_ids(path: Path, position: dict[str, int]) -> IntArray:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: this is not UTF-8 text. Save the file with encoding UTF-8."
        ) from None
    index = []
    seen: dict[int, int] = {}
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        # Ids are kept as written, so one may begin or end with a space.
        node = position.get(text, position.get(text.strip()))
        if node is None:
            unknown = sum(1 for t in lines if t.strip() and not {t, t.strip()} & position.keys())
            raise InputError(
                f"{path}, line {number}: {text!r} is not the id of a node of the graph "
                f"({unknown} such line(s)). Write one id per line, as in the graph's own file."
            )
        first = seen.setdefault(node, number)
        if first != number:
            raise InputError(
                f"{path}, line {number}: the node {text!r} was already named on line {first}. "
                "Name each node once."
            )
        index.append(node)
    return np.array(index, dtype=np.int64)


def _read_positions(path: Path, num_nodes: int) -> IntArray:
    try:
        index = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise InputError(
            f"{path}: this is not a readable .npy file of numbers ({error}). Write it with "
            "numpy.save(path, positions)."
        ) from None
    if not isinstance(index, np.ndarray) or index.ndim != 1 or index.dtype.kind not in "iu":
        got = f"{index.dtype} of shape {index.shape}" if isinstance(index, np.ndarray) else "npz"
        raise InputError(
            f"{path}: this must be a one-dimensional array of integers, got {got}. For a mask "
            "store numpy.flatnonzero(mask)."
        )
    outside = (index < 0) | (index >= num_nodes)
    if outside.any():
        raise InputError(
            f"{path}: node positions must be from 0 to {num_nodes - 1}, got {index[outside][0]} "
            f"({np.count_nonzero(outside)} such value(s))."
        )
    return index.astype(np.int64)


def _id_text(node_ids: npt.NDArray[np.generic], node: int) -> str:
    return repr(node_ids[node].item())
