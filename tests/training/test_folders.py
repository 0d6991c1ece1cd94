from __future__ import annotations

import os
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
    newest_with,
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
    assert choose() == RunFolder(runs / "version_0")
    assert choose(resume="last") == RunFolder(runs / "version_1")  # nothing to resume
    (runs / "version_0" / "last.ckpt").touch()
    resumed = RunFolder(runs / "version_0", runs / "version_0" / "last.ckpt")
    assert choose(resume="last") == resumed
    assert choose(resume=runs / "version_0" / "last.ckpt") == resumed
    assert choose() == RunFolder(runs / "version_2")
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
    assert choose_folder(data, "PAMT", 0, None, tmp_path, None) == first


def test_new_versions_count_up_and_are_never_reused(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "runs"
    made = [new_version(folder) for _ in range(12)]
    assert [path.name for path in made] == [f"version_{number}" for number in range(12)]
    assert all(path.is_dir() for path in made)
    made[3].rmdir()
    made[0].rmdir()
    assert new_version(folder).name == "version_12"


def test_other_files_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    for name in ("version_x", "version_", "version_3_old", "notes"):
        (tmp_path / name).mkdir()
    assert versions(tmp_path) == []
    assert new_version(tmp_path).name == "version_0"
    for number in (10, 2, 9):
        (tmp_path / f"version_{number}").mkdir()
    names = [path.name for path in versions(tmp_path)]
    assert names == ["version_0", "version_2", "version_9", "version_10"]
    assert versions(tmp_path / "nowhere") == []


def test_runs_started_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_version(tmp_path / "runs"), range(40)))
    assert len(set(made)) == 40


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


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_to_write_is_an_input_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        new_version(tmp_path)


def test_the_newest_run_with_a_file_is_found(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / f"version_{number}").mkdir()
    assert newest_with(tmp_path, "a.txt") is None
    for number in (2, 9):
        (tmp_path / f"version_{number}" / "a.txt").write_text("")
    (tmp_path / "version_10" / "a.txt").mkdir()  # not a file
    assert newest_with(tmp_path, "a.txt") == tmp_path / "version_9"
