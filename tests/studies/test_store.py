import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from filelock import FileLock

from pamt_lightning.errors import InputError
from pamt_lightning.studies.store import Store
from tests.studies.small_runs import PATIENCE

_CLAIMING = """
import sys, time
from pathlib import Path
from pamt_lightning.studies.store import Store

with Store(Path(sys.argv[1])).claim("a") as ours:
    print(ours, flush=True)
    time.sleep(1000)
"""
_ADDING = """
import sys
from pathlib import Path
from pamt_lightning.studies.store import Store

store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    store.add({"id": f"{sys.argv[2]}-{number}", "text": sys.argv[2] * 20_000})
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


@contextmanager
def another_process(code: str, *args: str) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-c", code, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_what_is_added_is_there_for_all(store: Store) -> None:
    store.add({"id": "a", "metrics": {"test_acc": 0.1 + 0.2}, "note": "α\nβ"})
    row = Store(store.folder).rows()["a"]
    assert row == {"id": "a", "metrics": {"test_acc": 0.1 + 0.2}, "note": "α\nβ"}
    assert len((store.folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_a_finished_run_stands_before_a_failed_one(store: Store) -> None:
    store.add({"id": "a", "error": "first"})
    store.add({"id": "a", "error": "second"})
    assert store.rows()["a"]["error"] == "second"
    store.add({"id": "a", "metrics": {}})
    store.add({"id": "a", "error": "third"})
    assert "error" not in store.rows()["a"]


def test_a_torn_last_line_is_ignored_and_healed(store: Store) -> None:
    path = store.folder / "runs.jsonl"
    store.add({"id": "a"})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"id": "b", "metr')
    assert set(store.rows()) == {"a"}
    store.add({"id": "c"})
    assert set(store.rows()) == {"a", "c"}
    path.write_bytes(whole.rstrip())  # all but the end of the line was written
    assert set(store.rows()) == {"a"}
    store.add({"id": "c"})
    assert set(store.rows()) == {"a", "c"}


def test_lines_that_cannot_be_read_are_skipped(store: Store) -> None:
    path = store.folder / "runs.jsonl"
    store.add({"id": "a"})
    with path.open("ab") as file:
        file.write(b'\xff\xfe\n\n[1]\n7\nnull\n{"key": "b"}\n{"id": ["c"]}\n{"id": \n')
    store.add({"id": "d"})
    assert set(store.rows()) == {"a", "d"}
    (store.folder / "context.jsonl").write_text('{"key": 1}\n{"id": "e"}\n{"key": "f"}\n')
    assert store.context() == {"f": None}


def test_processes_that_add_at_once_do_not_mix_their_lines(store: Store) -> None:
    folder = str(store.folder)
    with (
        another_process(_ADDING, folder, "x", "25") as one,
        another_process(_ADDING, folder, "y", "25") as two,
    ):
        assert one.wait(PATIENCE) == two.wait(PATIENCE) == 0
    rows = store.rows()
    assert set(rows) == {f"{name}-{number}" for name in "xy" for number in range(25)}
    assert all(row["text"] == row["id"][0] * 20_000 for row in rows.values())
    assert len((store.folder / "runs.jsonl").read_text().splitlines()) == 50


def test_a_line_waits_until_no_other_is_being_written(store: Store) -> None:
    adding = threading.Thread(target=store.add, args=({"id": "a"},))
    with FileLock(store.folder / ".claims" / "runs.jsonl.lock"):
        adding.start()
        adding.join(0.5)
        assert adding.is_alive()
        assert not (store.folder / "runs.jsonl").exists()
    adding.join(PATIENCE)
    assert set(store.rows()) == {"a"}


def test_a_claim_is_for_one_process_and_given_back_when_that_dies(store: Store) -> None:
    with another_process(_CLAIMING, str(store.folder)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert store.is_claimed("a")
        with store.claim("a") as ours:
            assert not ours
        assert store.is_claimed("a")  # a look at it has not opened it
        os.kill(other.pid, signal.SIGKILL)
        other.wait(PATIENCE)
    assert not store.is_claimed("a")
    with store.claim("a") as ours:
        assert ours


def test_a_claim_ends_with_its_block_and_leaves_nothing(store: Store) -> None:
    with suppress(KeyError), store.claim("a") as ours:
        assert ours
        assert store.is_claimed("a")
        raise KeyError("a")
    assert not store.is_claimed("a")
    assert not store.is_claimed("b")
    assert not list((store.folder / ".claims").iterdir())


def test_what_is_done_cannot_be_claimed_and_what_failed_only_to_try_again(store: Store) -> None:
    store.add({"id": "done"})
    store.add({"id": "failed", "error": "it diverged."})
    for name, retry, expected in (
        *(("done", False, False), ("done", True, False)),
        *(("failed", False, False), ("failed", True, True)),
        *(("new", False, True), ("new", True, True)),
    ):
        with store.claim(name, retry=retry) as ours:
            assert ours is expected, (name, retry)


def test_what_runs_share_is_written_once(store: Store) -> None:
    key = store.add_context("configuration", {"lr": 0.1, "alpha": 0.2})
    assert store.add_context("configuration", {"alpha": 0.2, "lr": 0.1}) == key
    assert Store(store.folder).add_context("configuration", {"lr": 0.1, "alpha": 0.2}) == key
    other = store.add_context("configuration", {"lr": 0.2, "alpha": 0.2})
    assert store.context() == {key: {"lr": 0.1, "alpha": 0.2}, other: {"lr": 0.2, "alpha": 0.2}}
    assert len((store.folder / "context.jsonl").read_text().splitlines()) == 2


def test_an_infinite_option_is_kept_as_a_word(store: Store) -> None:
    key = store.add_context("configuration", {"data": {"exponents": [math.inf, 3.0]}})
    assert store.context()[key] == {"data": {"exponents": ["inf", 3.0]}}
    assert "Infinity" not in (store.folder / "context.jsonl").read_text()


def test_a_folder_that_cannot_be_is_named(tmp_path: Path, store: Store) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file"):
        Store(tmp_path / "file")
    (store.folder / "runs.jsonl").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*runs\.jsonl"):
        store.add({"id": "a"})


def test_lines_are_plain_json(store: Store) -> None:
    store.add({"id": "a", "value": None, "metrics": {"x": 1.0}})
    line = (store.folder / "runs.jsonl").read_text()
    assert line == '{"id":"a","value":null,"metrics":{"x":1.0}}\n'
    assert json.loads(line)["metrics"] == {"x": 1.0}


def test_lines_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.damaged() == []
    store.add({"id": "a"})
    store.add_context("environment", {"a": 1})
    assert store.damaged() == []
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"id": "b"\n[1]\n{"key": 1}\n')
    (told,) = store.damaged()
    assert (
        "runs.jsonl: what cannot be read counts as not there, 3 in all, the first in line 2" in told
    )
    with (tmp_path / "context.jsonl").open("a") as file:
        file.write("{")
    assert "context.jsonl: what cannot be read" in store.damaged()[1]
