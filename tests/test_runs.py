from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.training.folders import (
    new_version,
    newest_with,
    run_name,
    versions,
    write_whole,
)


def test_a_run_is_named_by_data_method_split_and_initialisation() -> None:
    assert run_name("cora_ml", "PAMT", "7", 1) == "cora_ml/PAMT/split7_init1"
    assert run_name("cora_ml", "PAMT", "7", 1, "_noise0.5") == "cora_ml_noise0.5/PAMT/split7_init1"


@pytest.mark.parametrize("name", ["my graph", "a/b", "..\\c", "ünï: ?", "a\nb"])
def test_a_name_is_one_folder_whatever_the_user_calls_the_data(name: str) -> None:
    first = run_name(name, "PAMT", "7", 1).split("/")
    assert len(first) == 3
    assert re.fullmatch(r"[\w.-]+", first[0])


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


def test_versions_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 9):
        (tmp_path / f"version_{number}").mkdir()
    assert [path.name for path in versions(tmp_path)] == ["version_2", "version_9", "version_10"]
    assert versions(tmp_path / "nowhere") == []


def test_a_version_made_by_another_process_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version_0").mkdir()
    monkeypatch.setattr(
        "pamt_lightning.training.folders.versions", lambda _: []
    )  # it looked too early
    assert new_version(tmp_path).name == "version_1"


def test_runs_started_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_version(tmp_path / "runs"), range(40)))
    assert len(set(made)) == 40


def test_a_folder_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    for folder in (tmp_path / "file", tmp_path / "file" / "runs", tmp_path / "dangling"):
        with pytest.raises(InputError, match=re.escape(f"cannot make the folder {folder}: ")):
            new_version(folder)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write_is_an_input_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"cannot make the run's folder .*: Permission denied"):
        new_version(tmp_path)


def test_a_full_disk_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **options: object) -> None:
        if not options:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    message = f"cannot make the run's folder {tmp_path / 'version_0'}: No space left on device."
    with pytest.raises(InputError, match=re.escape(message)):
        new_version(tmp_path)


def test_the_newest_run_with_a_file_is_found(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / f"version_{number}").mkdir()
    assert newest_with(tmp_path, "a.txt") is None
    for number in (2, 9):
        (tmp_path / f"version_{number}" / "a.txt").write_text("")
    (tmp_path / "version_10" / "a.txt").mkdir()  # not a file
    assert newest_with(tmp_path, "a.txt") == tmp_path / "version_9"


def test_a_file_is_written_whole_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_whole(path, lambda file: print("ünï\r", file=file))
    assert path.read_bytes() == "ünï\r\n".encode()
    write_whole(path, lambda file: print("second", file=file))
    assert path.read_text() == "second\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
def test_others_may_read_the_file_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.txt", lambda file: None)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, OSError(28, "full")])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException] | OSError
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(file: IO[str]) -> None:
        file.write("half of the n")
        file.flush()
        assert path.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 2  # on the same disk, else renaming is copying
        raise error

    expected = InputError if isinstance(error, OSError) else error
    with pytest.raises(expected):
        write_whole(path, write)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_path_that_cannot_be_written_is_an_input_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "a.txt"):
        with pytest.raises(InputError, match=re.escape(f"cannot write {path}: ")):
            write_whole(path, lambda file: None)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]
