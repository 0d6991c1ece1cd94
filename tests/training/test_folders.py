from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytorch_lightning.utilities import rank_zero_only

from pamt_lightning import GraphDataModule
from pamt_lightning.errors import InputError
from pamt_lightning.training.folders import (
    RunFolder,
    choose_folder,
    new_version,
    run_name,
    versions,
)


def test_a_run_is_named_by_data_method_split_and_initialisation(tmp_path: Path) -> None:
    assert run_name(GraphDataModule(split_seed=7), "PAMT", 1) == "synthetic/PAMT/split7_init1"
    noisy = GraphDataModule("cora_ml", split_seed=7, structure_noise=0.5, noise_seed=2)
    assert run_name(noisy, "GAT", 0) == "cora_ml_noise0.5_seed2/GAT/split7_init0"
    given = GraphDataModule(path=str(tmp_path / "mine"), split_path=str(tmp_path / "split"))
    assert run_name(given, "GAT", 0) == "mine/GAT/splitgiven_init0"


@pytest.mark.parametrize("name", ["my graph", "..\\c", "ünï: ?", "a\nb"])
def test_a_name_is_one_folder_whatever_the_user_calls_the_data(name: str, tmp_path: Path) -> None:
    first = run_name(GraphDataModule(path=str(tmp_path / name)), "PAMT", 1).split("/")
    assert len(first) == 3
    assert re.fullmatch(r"[\w.-]+", first[0])


def test_the_folder_is_a_new_one_unless_one_is_named_or_resumed(tmp_path: Path) -> None:
    data = GraphDataModule(split_seed=7)

    def choose(folder: Path | None = None, resume: Path | str | None = None) -> RunFolder:
        return choose_folder(data, "PAMT", 1, folder, tmp_path, resume)

    runs = tmp_path / "synthetic" / "PAMT" / "split7_init1"
    assert choose() == RunFolder(runs / "version_0", is_new=True)
    assert choose(resume="last") == RunFolder(runs / "version_1", is_new=True)
    for number in (2, 9, 10):
        (runs / f"version_{number}").mkdir()
    (runs / "version_2" / "last.ckpt").touch()
    (runs / "version_9" / "last.ckpt").touch()
    (runs / "version_10" / "last.ckpt").mkdir()  # not a file
    resumed = RunFolder(runs / "version_9", runs / "version_9" / "last.ckpt")
    assert choose(resume="last") == resumed
    assert choose(resume=runs / "version_9" / "last.ckpt") == resumed
    assert choose() == RunFolder(runs / "version_11", is_new=True)
    mine = tmp_path / "mine"
    assert choose(mine) == choose(mine, "last") == RunFolder(mine)
    mine.mkdir()
    (mine / "last.ckpt").touch()
    with pytest.raises(InputError, match=rf"{mine} holds a run already.*--ckpt_path last"):
        choose(mine)
    assert choose(mine, "last") == RunFolder(mine, mine / "last.ckpt")
    elsewhere = choose(tmp_path / "copy", mine / "last.ckpt")
    assert elsewhere == RunFolder(tmp_path / "copy", mine / "last.ckpt")


def test_other_processes_write_where_the_first_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAMT_RUN_FOLDER", raising=False)
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    data = GraphDataModule()
    with pytest.raises(InputError, match="--run_dir"):
        choose_folder(data, "PAMT", 0, None, tmp_path, None)
    monkeypatch.setenv("PAMT_RUN_FOLDER", "replaced")  # so that it is restored
    monkeypatch.setattr(rank_zero_only, "rank", 0)
    first = choose_folder(data, "PAMT", 0, None, tmp_path, None)
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    assert choose_folder(data, "PAMT", 0, None, tmp_path, None) == RunFolder(first.path)


def test_new_versions_count_up_and_are_never_reused(tmp_path: Path) -> None:
    for name in ("version_x", "version_", "version_3_old", "notes"):
        (tmp_path / name).mkdir()
    assert versions(tmp_path) == []
    with ThreadPoolExecutor(8) as pool:  # several runs may start at once
        made = list(pool.map(lambda _: new_version(tmp_path), range(40)))
    assert sorted(made) == sorted(tmp_path / f"version_{number}" for number in range(40))
    for number in (0, 3, 38):
        (tmp_path / f"version_{number}").rmdir()
    assert new_version(tmp_path).name == "version_40"
    assert [path.name for path in versions(tmp_path)][-2:] == ["version_39", "version_40"]


@pytest.mark.parametrize(("is_new", "saved"), [(True, False), (True, True), (False, False)])
def test_only_a_new_folder_without_a_checkpoint_is_removed(
    is_new: bool, saved: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ("last.ckpt" if saved else "config.yaml")).touch()
    RunFolder(folder, is_new=is_new).remove_if_unused()
    assert folder.exists() == (saved or not is_new)


def test_a_folder_that_cannot_be_made_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    for folder in (tmp_path / "file", tmp_path / "file" / "runs", tmp_path / "dangling"):
        with pytest.raises(InputError, match=re.escape(f"cannot make the folder {folder}: ")):
            new_version(folder)

    def full(path: Path, *_: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(InputError, match="No space left on device"):
        new_version(tmp_path)
