from __future__ import annotations

import pytest

from pamt_lightning.errors import CheckpointError, InputError, did_you_mean, error_context


def test_only_a_close_word_is_suggested() -> None:
    assert did_you_mean("modle", ["data", "model"]) == " Did you mean 'model'?"
    assert did_you_mean("nothing like it", ["data", "model"]) == did_you_mean(3, []) == ""


def test_the_source_is_put_in_front_of_input_errors_only() -> None:
    with pytest.raises(InputError, match=r"^a\.yaml: lr is wrong\.$"), error_context("a.yaml"):
        raise CheckpointError("lr is wrong.")
    with pytest.raises(InputError, match=r"^lr is wrong\.$"), error_context(""):
        raise CheckpointError("lr is wrong.")
    with pytest.raises(ZeroDivisionError, match="x"), error_context("a.yaml"):
        raise ZeroDivisionError("x")
