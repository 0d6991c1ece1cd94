from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.files import read_yaml, write_whole

# Reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "0.1e-2", "+1e-3"])
def test_numbers_with_an_exponent_are_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(f"lr: {text}\nname: 1e-3x\nwhole: 3")
    content = read_yaml(tmp_path / "a.yaml", "values")
    assert content == {"lr": 0.001, "name": "1e-3x", "whole": 3}
    assert isinstance(content["lr"], float)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"a: 1\nb: [", ("line 2, column 5", "YAML")),
        (b"a: \xff", ("YAML",)),
        (b"just text", ("sections", "str")),
        (b"[1]", ("sections", "list")),
        (b"", ("sections", "nothing")),
        (None, ("cannot be read: No such file",)),
        (b"a: !!python/object/apply:os.getcwd []", ("YAML", "python")),
    ],
)
def test_a_file_that_is_no_mapping_is_named(
    tmp_path: Path, content: bytes | None, facts: tuple[str, ...]
) -> None:
    if content is not None:
        (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(InputError) as error:
        read_yaml(tmp_path / "bad.yaml", "sections", "as_typed.yaml")
    assert str(error.value).startswith("as_typed.yaml")
    assert all(fact in str(error.value) for fact in facts), error.value


# Writing -------------------------------------------------------------------------------------


def test_a_file_is_written_whole_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_whole(path, lambda file: print("ünï\r", file=file))
    assert path.read_bytes() == "ünï\r\n".encode()
    write_whole(path, lambda file: print("second", file=file))
    assert path.read_text() == "second\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_the_file_gets_the_permissions_of_the_umask(tmp_path: Path) -> None:
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

    with pytest.raises(InputError if isinstance(error, OSError) else error):
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
