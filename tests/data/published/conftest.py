from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache of the toy data set; no setting of this machine counts."""
    for name in ("PAMT_DATA", "http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PAMT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "toy"
