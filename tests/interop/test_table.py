from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.interop.table import Column, TableEncoder

TABLE = pd.DataFrame(
    {
        "age": [20.0, np.nan, 40.0, 30.0] * 5,
        "rich": [True, False, False, True] * 5,
        "city": ["Rome", "Oslo", None, "Rome"] * 4 + ["Rome", "Bonn", None, "Rome"],
        "since": ["2020-01-01", "2020-01-03", "", "2020-01-02"] * 5,
        "bio": ["likes red wine", "likes blue wine", "hates red cars", None] * 5,
        "name": [f"n{number}" for number in range(20)],
        "same": "x",
    }
).replace("", np.nan)


def dense(features: Any) -> Any:
    matrix: Any = features
    return matrix.toarray() if sp.issparse(features) else matrix


def columns_of(encoder: TableEncoder, table: pd.DataFrame = TABLE) -> dict[str, list[float]]:
    return dict(zip(encoder.feature_names, dense(encoder.transform(table)).T.tolist(), strict=True))


def test_each_kind_of_column_is_recognised_and_described() -> None:
    encoder = TableEncoder.fit(TABLE)
    kinds = {column.name: column.kind for column in encoder.columns}
    assert kinds == {
        "age": "number",
        "rich": "number",
        "city": "category",
        "since": "date",
        "bio": "text",
        "name": "left out",
        "same": "left out",
    }
    assert encoder.notes == [
        "`rich` number",
        "`age` number, missing: median and a column",
        "`city` 2 categories, rarer ones joined, missing: a column",
        "`since` date, in days, missing: median and a column",
        "`bio` text, TF-IDF of 6 words",
        "`name` left out: a value of its own for nearly each node",
        "`same` left out: one value",
    ]


def test_numbers_are_standardised_and_missing_ones_are_marked() -> None:
    found = columns_of(TableEncoder.fit(TABLE[["age", "rich"]]))
    filled = np.array([20.0, 30.0, 40.0, 30.0] * 5)
    assert found["age"] == pytest.approx((filled - filled.mean()) / filled.std(), abs=1e-6)
    assert found["age=missing"] == [0, 1, 0, 0] * 5
    assert found["rich"] == pytest.approx([1, -1, -1, 1] * 5)


def test_categories_are_one_hot_with_columns_for_rare_and_missing_ones() -> None:
    found = columns_of(TableEncoder.fit(TABLE[["city"]]))
    assert list(found) == ["city=Oslo", "city=Rome", "city=other", "city=missing"]
    assert np.sum(list(found.values()), axis=0).tolist() == [1] * 20
    assert found["city=missing"] == [0, 0, 1, 0] * 5
    assert found["city=other"][17] == 1
    unseen = TableEncoder.fit(TABLE[["city"]])
    new = columns_of(unseen, pd.DataFrame({"city": ["Paris", "Rome", np.nan]}))
    assert new["city=other"] == [1, 0, 0]
    assert new["city=Rome"] == [0, 1, 0]
    assert new["city=missing"] == [0, 0, 1]


def test_dates_count_days() -> None:
    days = np.array([0.0, 2.0, 1.0, 1.0] * 5)  # the median in place of missing ones
    for values in (TABLE["since"], pd.to_datetime(TABLE["since"])):
        found = columns_of(TableEncoder.fit(values.to_frame()))
        assert found["since"] == pytest.approx((days - days.mean()) / days.std(), abs=1e-4)
        assert found["since=missing"] == [0, 0, 1, 0] * 5


def test_texts_become_tf_idf_as_in_scikit_learn() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    texts = ["The red fox ran", "a fox and the dog", "red red wine is fine", "dog eats dog food"]
    encoder = TableEncoder.fit(pd.DataFrame({"t": texts}))
    vectorizer = text.TfidfVectorizer(min_df=2)
    expected = vectorizer.fit_transform(texts).toarray()
    names = tuple(f"t:{word}" for word in vectorizer.get_feature_names_out())
    assert encoder.feature_names == names
    assert dense(encoder.transform(pd.DataFrame({"t": texts}))) == pytest.approx(expected, abs=1e-6)
    new = ["fox unknown words", "nothing of it here", None]
    found = dense(encoder.transform(pd.DataFrame({"t": new})))
    assert found[:2] == pytest.approx(vectorizer.transform(new[:2]).toarray(), abs=1e-6)
    assert not found[2].any()


def test_plain_numbers_stay_as_they_are() -> None:
    table = pd.DataFrame({"a": [1.5, 2.0, 1e30], "b": [1, 2, 3], "c": [True, False, True]})
    encoder = TableEncoder.fit(table)
    assert encoder.is_plain
    assert encoder.notes == []
    expected = table.to_numpy(dtype=np.float32)
    assert np.array_equal(dense(encoder.transform(table)), expected)
    assert np.array_equal(dense(encoder.transform(table[["c", "a", "b"]])), expected)
    gap = table.assign(b=[1, np.nan, 3])  # unknown in training: the median
    assert dense(encoder.transform(gap))[1].tolist() == [2, 2, 0]
    words = pd.DataFrame(np.eye(8))
    words.columns = words.columns.astype(str)
    assert sp.issparse(TableEncoder.fit(words).transform(words))


def test_an_encoder_can_be_written_down() -> None:
    encoder = TableEncoder.fit(TABLE)
    again = TableEncoder.from_list(json.loads(json.dumps(encoder.to_list())))
    assert again == encoder
    assert np.array_equal(dense(again.transform(TABLE)), dense(encoder.transform(TABLE)))


def test_a_column_with_nearly_a_value_for_each_node_is_left_out() -> None:
    values = pd.Series([f"user{number}" for number in range(300)], name="login")
    assert str(Column.fit(values)) == "`login` left out: a value of its own for nearly each node"
    with pytest.raises(InputError, match="no column can be used as an attribute: `login` left out"):
        TableEncoder.fit(values.to_frame())


def test_rare_categories_are_joined() -> None:
    values = pd.Series(["a"] * 500 + ["b"] * 5 + ["c"] * 4, name="x")
    assert Column.fit(values).categories == ("a", "b")
    assert Column.fit(values[490:]).categories == ("a", "b", "c")
    many = pd.Series(np.repeat([f"k{number:03}" for number in range(150)], 6), name="x")
    assert len(Column.fit(many).categories) == 100


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (TABLE.drop(columns="city"), CheckpointError, "column `city` is missing"),
        (TABLE.assign(age="old"), InputError, "`age` must hold numbers .* got 'old'"),
        (TABLE.assign(since="soon"), InputError, "`since` must hold dates"),
    ],
)
def test_other_tables_are_refused(
    table: pd.DataFrame, error: type[Exception], message: str
) -> None:
    encoder = TableEncoder.fit(TABLE)
    with pytest.raises(error, match=message):
        encoder.transform(table)
    with pytest.raises(InputError, match="infinite"):
        TableEncoder.fit(pd.DataFrame({"a": [np.inf, 1.0]}))


def test_whole_numbers_as_categories_are_the_same_with_and_without_missing_ones() -> None:
    known, gaps = pd.DataFrame({"k": [1, 2, 1, 2]}), pd.DataFrame({"k": [1, 2, None, 1, 2]})
    for fitted, other in ((known, gaps), (gaps, known)):
        encoder = TableEncoder.fit(fitted, {"k": "category"})
        assert encoder.columns[0].categories == ("1", "2")
        assert columns_of(encoder, other)["k=other"] == [0] * len(other)


def test_a_constant_has_no_deviation_even_if_rounding_gives_it_one() -> None:
    table = pd.DataFrame({"a": [0.1] * 3, "b": ["x", "y", "x"]})
    assert np.array([0.1] * 3).std() > 0
    new = pd.DataFrame({"a": [0.2], "b": ["x"]})
    assert abs(columns_of(TableEncoder.fit(table), new)["a"][0]) < 1


def test_what_the_user_says_of_a_column_must_be_true() -> None:
    dates = pd.DataFrame({"a": ["2020-01-01", "2020-02-30"]})
    with pytest.raises(InputError, match="`a` must hold dates, got '2020-02-30'"):
        TableEncoder.fit(dates, {"a": "date"})
    with pytest.raises(InputError, match="`a` must hold dates"):
        TableEncoder.fit(pd.DataFrame({"a": [1, 2]}), {"a": "date"})
