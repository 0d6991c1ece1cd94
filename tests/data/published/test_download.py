from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from pamt_lightning.data.published.download import cache_folder, locate
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError
from tests.data.published.toy import FIRST, SECOND, toy, write

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("subfolder", ["", "toy"])
def test_a_folder_of_the_user_is_read_in_place(tmp_path: Path, cache: Path, subfolder: str) -> None:
    write(tmp_path / "mine" / subfolder, FIRST)
    located = locate(toy(), [tmp_path / "mine"])
    assert (located.folder, located.source) == (tmp_path / "mine" / subfolder, "disk")
    assert located.hashes == {"toy.npz": hashlib.sha256(FIRST["toy.npz"]).hexdigest()}
    assert located.content == FIRST
    assert located.variant == toy().variants[0]
    assert not cache.exists()


def test_each_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SECOND)
    spec, spy = toy(), Mock(wraps=hashlib.sha256)
    monkeypatch.setattr(hashlib, "sha256", spy)
    locate(spec, [tmp_path])
    assert spy.call_args_list == [call(data) for data in SECOND.values()]


def test_the_first_complete_variant_of_the_first_place_is_used(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, one, two = tmp_path / "named", tmp_path / "one", tmp_path / "two"
    monkeypatch.setenv("PAMT_DATA", f"{one}{os.pathsep}{two}")
    write(named, {"toy.a": SECOND["toy.a"]})
    write(cache, FIRST)
    assert locate(toy()).folder == cache
    assert [*cache.iterdir()] == [cache / "toy.npz"]  # not even a lock
    # From the last place to the first; the preferred variant is in a later place.
    for folder, content in ((cache, FIRST), (two, SECOND), (one, FIRST), (named, SECOND)):
        write(folder, content)
        located = locate(toy(), [named])
        assert (located.folder, located.content) == (folder, content)


def test_a_wrong_file_in_a_users_folder_is_an_error(tmp_path: Path, cache: Path) -> None:
    write(tmp_path / "mine", {"toy.npz": b"other"})
    write(cache, FIRST)
    with pytest.raises(DatasetIntegrityError) as caught:
        locate(toy(), [tmp_path / "mine"])
    for fact in (
        tmp_path / "mine" / "toy.npz",
        hashlib.sha256(FIRST["toy.npz"]).hexdigest(),
        hashlib.sha256(b"other").hexdigest(),
        "http://127.0.0.1:9/toy.npz",
    ):
        assert str(fact) in str(caught.value)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("PAMT_CACHE", "~/pamt")
    assert cache_folder() == Path("/home/someone/pamt")
    monkeypatch.delenv("PAMT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/pamt_lightning")
    for base in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert cache_folder() == Path("/home/someone/.cache/pamt_lightning")


def test_offline_does_not_use_the_network(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("opened a connection"))
    with pytest.raises(DatasetNotFoundError, match="not tried, because of `offline`"):
        locate(toy(), offline=True)
    assert list(tmp_path.iterdir()) == []
    write(cache, {"toy.npz": b"damaged"})
    wrong = f"{cache / 'toy.npz'} is not the published file: .* Delete it"
    with pytest.raises(DatasetNotFoundError, match=wrong):
        locate(toy(), offline=True)
    write(cache, SECOND)  # another variant is good
    assert locate(toy(), offline=True).content == SECOND


def test_one_error_lists_what_was_tried_and_what_to_do_by_hand(tmp_path: Path, cache: Path) -> None:
    mine = tmp_path / "mine"
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(toy(), [mine])
    tried, by_hand = str(caught.value).split("by hand")
    assert f"{mine}: toy.npz" in tried
    assert f"{mine}: toy.a, toy.b" in tried
    assert f"{cache}: toy.npz" in tried
    assert "http://127.0.0.1:9/toy.npz: " in tried
    assert by_hand.index("/toy.npz\n") < by_hand.index("  or\n") < by_hand.index("/toy.b\n")
    assert f"into {cache}" in by_hand
    assert "PAMT_DATA" in by_hand
