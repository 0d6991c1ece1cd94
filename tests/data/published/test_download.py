from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.data.published import transfer
from pamt_lightning.data.published.download import cache_folder, locate
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError, InputError
from tests.data.published.toy import FIRST, SECOND, toy, write

pytestmark = pytest.mark.usefixtures("no_settings_of_this_machine", "no_real_pip")


@pytest.mark.parametrize("subfolder", ["", "toy"])
def test_a_folder_of_the_user_is_read_in_place(tmp_path: Path, subfolder: str) -> None:
    write(tmp_path / "mine" / subfolder, FIRST)
    located = locate(toy(), [tmp_path / "mine"], tmp_path / "cache")
    assert located.paths == {"toy.npz": tmp_path / "mine" / subfolder / "toy.npz"}
    assert located.hashes == {"toy.npz": hashlib.sha256(FIRST["toy.npz"]).hexdigest()}
    assert located.content == FIRST
    assert located.variant == toy().variants[0]
    assert str(tmp_path / "mine") in located.source
    assert not (tmp_path / "cache").exists()


def test_each_file_is_read_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SECOND)
    read: list[str] = []
    hashed: list[bytes] = []
    real_read, real_hash = Path.read_bytes, hashlib.sha256

    def note_read(path: Path) -> bytes:
        read.append(path.name)
        return real_read(path)

    def note_hash(data: bytes = b"") -> Any:
        hashed.append(data)
        return real_hash(data)

    monkeypatch.setattr(Path, "read_bytes", note_read)
    monkeypatch.setattr(hashlib, "sha256", note_hash)
    spec = toy()
    hashed.clear()
    locate(spec, [tmp_path])
    assert (read, hashed) == (["toy.a", "toy.b"], list(SECOND.values()))


def test_pamt_data_is_a_list_of_folders_after_the_named_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, named = tmp_path / "one", tmp_path / "two", tmp_path / "named"
    write(two, FIRST)
    monkeypatch.setenv("PAMT_DATA", f"{one}{os.pathsep}{two}")
    assert locate(toy(), cache=tmp_path / "cache").paths == {"toy.npz": two / "toy.npz"}
    write(named, FIRST)
    assert locate(toy(), [named], tmp_path / "cache").paths == {"toy.npz": named / "toy.npz"}


def test_the_first_complete_variant_is_used(tmp_path: Path) -> None:
    mine, cached = tmp_path / "mine", tmp_path / "cache" / "toy"
    write(mine, {"toy.a": SECOND["toy.a"]})
    write(cached, SECOND)
    assert locate(toy(), [mine], tmp_path / "cache").paths["toy.a"] == cached / "toy.a"
    write(mine, SECOND)
    write(cached, FIRST)  # preferred, but in a later place
    assert set(locate(toy(), [mine], tmp_path / "cache").paths) == set(SECOND)


def test_a_wrong_file_in_a_users_folder_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "mine", {"toy.npz": b"other"})
    write(tmp_path / "cache" / "toy", FIRST)
    with pytest.raises(DatasetIntegrityError) as caught:
        locate(toy(), [tmp_path / "mine"], tmp_path / "cache")
    for fact in (
        tmp_path / "mine" / "toy.npz",
        hashlib.sha256(FIRST["toy.npz"]).hexdigest(),
        hashlib.sha256(b"other").hexdigest(),
        "http://127.0.0.1:9/toy.npz",
    ):
        assert str(fact) in str(caught.value)


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


def test_a_generated_data_set_has_no_files() -> None:
    with pytest.raises(InputError, match="`random` is generated"):
        locate(DatasetSpec("random", (), "no files"))


def test_a_hit_in_the_cache_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "toy"
    write(folder, FIRST)
    folder.chmod(0o555)
    try:
        assert locate(toy(), cache=tmp_path / "cache").paths["toy.npz"] == folder / "toy.npz"
        assert [path.name for path in folder.iterdir()] == ["toy.npz"]
    finally:
        folder.chmod(0o755)


def test_offline_does_not_use_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "fetch", lambda *_: pytest.fail("fetched"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("opened a connection"))
    with pytest.raises(DatasetNotFoundError, match="not tried, because of `offline`"):
        locate(toy(), cache=tmp_path, offline=True)
    assert list(tmp_path.iterdir()) == []


def test_offline_a_damaged_cache_is_an_error_unless_another_variant_is_good(tmp_path: Path) -> None:
    write(tmp_path / "toy", {"toy.npz": b"damaged"})
    with pytest.raises(DatasetIntegrityError, match="without `offline`"):
        locate(toy(), cache=tmp_path, offline=True)
    write(tmp_path / "toy", SECOND)
    assert set(locate(toy(), cache=tmp_path, offline=True).paths) == set(SECOND)


def test_one_error_lists_what_was_tried_and_what_to_do_by_hand(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(toy(), [mine], tmp_path / "cache")
    tried, by_hand = str(caught.value).split("by hand")
    assert f"folder {mine}: toy.npz" in tried
    assert f"folder {mine}: toy.a, toy.b" in tried
    assert f"cache {tmp_path / 'cache' / 'toy'}: toy.npz" in tried
    assert "http://127.0.0.1:9/toy.npz: " in tried
    assert by_hand.index("/toy.npz\n") < by_hand.index("  or\n") < by_hand.index("/toy.b\n")
    assert f"into {tmp_path / 'cache' / 'toy'}" in by_hand
    assert "PAMT_DATA" in by_hand
