from __future__ import annotations

import hashlib
import pickle
import pickletools
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.published.planetoid import (
    CITESEER_CLASS_OF_PLANETOID,
    citeseer_order,
    read_planetoid,
)
from pamt_lightning.data.published.readers import read_dataset
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.errors import DatasetIntegrityError
from tests.data.published.toy import Bomb, located


def python2_pickle(obj: Any) -> bytes:
    """A pickle as Python 2, NumPy 1 and SciPy 0 wrote it, opcode by opcode."""
    return b"\x80\x02" + _opcodes(obj) + b"."


def _opcodes(obj: Any) -> bytes:
    match obj:
        case bytes():  # a string in Python 2
            return b"T" + struct.pack("<i", len(obj)) + obj
        case tuple():
            return b"(" + b"".join(map(_opcodes, obj)) + b"t"
        case dict():
            lists = b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR"
            items = b"".join(_opcodes(part) for item in obj.items() for part in item)
            return (lists if isinstance(obj, defaultdict) else b"}") + b"(" + items + b"u"
        case np.dtype():
            made = b"cnumpy\ndtype\n" + _opcodes((obj.str[1:].encode(), 0, 1)) + b"R"
            return made + _opcodes((3, b"<", None, None, None, -1, -1, 0)) + b"b"
        case np.ndarray():
            made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
            made += _opcodes((0,)) + _opcodes(b"b") + b"tR"
            return made + _opcodes((1, obj.shape, obj.dtype, False, obj.tobytes())) + b"b"
        case sp.csr_array():
            attributes = {key: getattr(obj, key) for key in ("data", "indices", "indptr")}
            attributes |= {"_shape": obj.shape, "maxprint": 50}
            return b"cscipy.sparse.csr\ncsr_matrix\n)\x81" + _opcodes(attributes) + b"b"
    return pickletools.optimize(pickle.dumps(obj, protocol=2))[2:-1]


def csr(rows: list[list[float]]) -> sp.csr_array:
    return sp.csr_array(np.array(rows, dtype=np.float32))


def toy_planetoid(**replaced: bytes) -> dict[str, bytes]:
    """Four known rows, then rows 6 and 4 in that order; row 5 is in no file, like Citeseer's 15."""
    neighbours: dict[int, list[int]] = defaultdict(list)
    neighbours.update({0: [1, 1], 1: [0, 6], 6: [1, 4], 4: [6, 4], 2: [3], 3: [2], 5: []})
    content = {
        "allx": python2_pickle(csr([[1, 0], [0, 2], [0, 0], [3, 0]])),
        "ally": python2_pickle(np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.int32)),
        "tx": python2_pickle(csr([[0, 6], [4, 0]])),
        "ty": python2_pickle(np.array([[1, 0], [0, 1]], dtype=np.int32)),
        "graph": python2_pickle(neighbours),
        "test.index": b"6\n4\n",
    }
    return {f"ind.toy.{name}": data for name, data in (content | replaced).items()}


TABLE = "9f05384c82e02ba59e0356c99ccd8ba0e0a912cfd274689b8a2da447075412bf"
TOY_PLANETOID = DatasetSpec("toy", "a toy", 4, 3, 2, 4, 2, num_known=2)


def test_planetoid_rows_go_where_the_test_index_says() -> None:
    raw = read_dataset(TOY_PLANETOID, located("planetoid", toy_planetoid()))
    assert raw.node_ids.tolist() == [0, 1, 4, 6]
    assert isinstance(raw.features, sp.csr_array)
    assert raw.features.toarray().tolist() == [[1, 0], [0, 2], [4, 0], [0, 6]]
    assert raw.labels.tolist() == [0, 1, 1, 0]
    np.testing.assert_array_equal(
        raw.adjacency.toarray(), [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 0]]
    )
    assert raw.class_names == ("0", "1")
    assert raw.adjacency.indices.dtype == np.int32
    assert read_planetoid(toy_planetoid()).node_ids.tolist() == [0, 1, 2, 3, 4, 6]


def test_a_pickle_that_wants_to_run_a_command_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    hostile = pickle.dumps(Bomb(trace), protocol=2)
    with pytest.raises(DatasetIntegrityError, match=r"ind\.toy\.graph.*`(posix|nt)\.system`"):
        read_planetoid(toy_planetoid(graph=hostile))
    assert not trace.exists()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Ran out of input"),
        (python2_pickle(csr([[1, 0]]))[:-9], "truncated"),
        (b"P1\n.", "persistent"),
        *(
            (f"c__builtin__\n{name}\n.".encode(), f"builtin(s|__).{name}")
            for name in ("eval", "getattr", "__import__", "object")
        ),
    ],
)
def test_other_pickles_are_refused_with_their_file(data: bytes, reason: str) -> None:
    with pytest.raises(DatasetIntegrityError, match=rf"ind\.toy\.allx: .*{reason}"):
        read_planetoid(toy_planetoid(allx=data))


def test_the_table_of_citeseer_nodes_is_a_selection_of_planetoid_rows() -> None:
    rows, names = citeseer_order()
    assert len(rows) == len(set(rows.tolist())) == 2110
    assert 0 <= rows.min() <= rows.max() < 3327
    assert len(names) == len(set(names.tolist())) == 2110
    assert sorted(CITESEER_CLASS_OF_PLANETOID) == list(range(6))
    # Of the table itself: most of it can only be checked with both publications at hand.
    table = ",".join(f"{row} {name}" for row, name in zip(rows, names, strict=True))
    assert hashlib.sha256(table.encode()).hexdigest() == TABLE
