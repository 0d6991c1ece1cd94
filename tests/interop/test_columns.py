from __future__ import annotations

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.interop.columns import Columns, find_column, other_labels


@pytest.mark.parametrize(
    ("role", "columns", "found"),
    [
        ("id", ["Label", "Node ID"], "Node ID"),
        ("label", ["node", "CLASS"], "CLASS"),
        ("source", ["from", "src"], "src"),  # the more telling one
        ("target", ["weight"], None),
        ("weight", ["Weight", "weight"], "Weight"),
        ("label", ["x", "y"], None),  # coordinates
        ("label", ["x", "y", "class"], "class"),
    ],
)
def test_common_spellings_are_recognised(role: str, columns: list[str], found: str | None) -> None:
    assert find_column(role, columns) == found


def test_a_given_column_must_be_there() -> None:
    assert find_column("id", ["key", "id"], "key") == "key"
    with pytest.raises(InputError, match=r"nodes\.csv has no column 'kez' for `id`.*'key'"):
        find_column("id", ["key"], "kez", "nodes.csv")


def test_columns_are_named_by_role() -> None:
    found = Columns.parse(" id = node_id, weight=w,category=zip,skip=a,skip=b,")
    assert found.roles == {"id": "node_id", "weight": "w"}
    assert found.kinds == {"zip": "category"}
    assert found.skipped == ("a", "b")
    assert found.find("id", ["node_id", "id"], "t") == "node_id"
    assert Columns.parse(None) == Columns()
    for text in ("ids=a", "id", "id="):
        with pytest.raises(InputError, match="`columns` must be ROLE=NAME"):
            Columns.parse(text)
    with pytest.raises(InputError, match="t has no column 'zip' for `category`"):
        found.check_kinds(["a", "b"], "t")
    with pytest.raises(InputError, match="no column 'b' for `skip`"):
        found.check_kinds(["a", "zip"], "t")
    with pytest.raises(InputError, match=r"must be one of number, .* got 'categorical'"):
        Columns(kinds={"a": "categorical"}).check_kinds(["a"], "t")
    assert other_labels(["id", "label", "target"], "label") == ["target"]
    assert other_labels(["id", "target"], None) == []
