"""Lightning's notes for developers are silenced, its warnings are not."""

from __future__ import annotations

import logging
import warnings

import pytest

from pamt_lightning.training.quiet import silence_lightning


def test_notes_are_silenced_and_warnings_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("pytorch_lightning")
    logger.setLevel(logging.INFO)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        silence_lightning()
        warnings.warn("Sparse CSR tensor support is in beta state.", UserWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["something else"]
    logger.info("GPU available: False")
    logger.warning("a warning")
    assert "GPU available" not in caplog.text
