from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from pamt_lightning.errors import InputError
from pamt_lightning.studies.results import Results
from tests.studies.small_runs import PATIENCE, made_up_run

_CLAIMING = """
import sys, time
from pathlib import Path
from pamt_lightning.studies.results import Results

results = Results(Path(sys.argv[1]))
print(results.claim("a"), flush=True)
time.sleep(60)
"""


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "results")


def test_rows_are_lines_of_plain_json(results: Results) -> None:
    row = {"id": "a", "value": None, "metrics": {"test_acc": 0.1 + 0.2}, "note": "α\nβ"}
    results.add(row)
    assert Results(results.folder).rows() == {"a": row}
    (line,) = results.path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == row
    results.add({"id": "b", "config": {"exponents": [math.inf, math.nan, 3.0]}})
    assert results.rows()["b"]["config"] == {"exponents": ["inf", "nan", 3.0]}


def test_a_finished_run_stands_before_a_failed_one(results: Results) -> None:
    results.add({"id": "a", "error": "first"})
    results.add({"id": "a", "error": "second"})
    assert results.rows()["a"]["error"] == "second"
    results.add({"id": "a", "metrics": {}})
    results.add({"id": "a", "error": "third"})
    assert "error" not in results.rows()["a"]


@pytest.mark.parametrize("torn", [b'\n{"id": "b", "metr', b""], ids=["in a line", "before its end"])
def test_a_torn_last_line_is_ignored_and_repaired(torn: bytes, results: Results) -> None:
    results.add({"id": "a"})
    results.path.write_bytes(results.path.read_bytes().rstrip() + torn)
    assert set(results.rows()) == {"a"}
    results.add({"id": "c"})
    assert set(results.rows()) == {"a", "c"}


def test_lines_that_cannot_be_read_are_skipped_and_reported(results: Results) -> None:
    results.add({"id": "a"})
    assert results.damaged() is None
    with results.path.open("ab") as file:
        file.write(b'\xff\xfe\n\n[1]\n7\nnull\n{"key": "b"}\n{"id": ["c"]}\n{"id": \n')
    results.add({"id": "d"})
    assert set(results.rows()) == {"a", "d"}
    message = results.damaged()
    assert message is not None
    assert all(fact in message for fact in (str(results.path), "8 lines", "line 2"))


def test_a_line_waits_until_no_other_is_being_written(results: Results) -> None:
    adding = threading.Thread(target=results.add, args=({"id": "a"},))
    with FileLock(results.folder / ".claims" / "runs.jsonl.lock"):
        adding.start()
        adding.join(0.2)
        assert adding.is_alive()
        assert not results.path.exists()
    adding.join(PATIENCE)
    assert set(results.rows()) == {"a"}


def test_a_claim_is_for_one_process_and_ends_with_it(results: Results) -> None:
    command = [sys.executable, "-c", _CLAIMING, str(results.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not results.claim("a")
        assert not results.claim("a")  # looking at it has not released it
        os.kill(other.pid, signal.SIGKILL)
        other.wait(PATIENCE)
    assert results.claim("a")
    assert not Results(results.folder).claim("a")
    results.release("a")
    assert not list((results.folder / ".claims").iterdir())


@pytest.mark.parametrize("retry", [False, True])
def test_a_finished_run_cannot_be_claimed_and_a_failed_one_only_to_repeat_it(
    retry: bool, results: Results
) -> None:
    results.add({"id": "done"})
    results.add({"id": "failed", "error": "it diverged."})
    assert not results.claim("done", retry=retry)
    assert results.claim("failed", retry=retry) is retry
    assert results.claim("new", retry=retry)


def test_a_folder_or_file_that_cannot_be_written_is_named(tmp_path: Path, results: Results) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file"):
        Results(tmp_path / "file")
    results.path.mkdir()
    with pytest.raises(InputError, match=r"cannot write .*runs\.jsonl"):
        results.add({"id": "a"})


# Another results version -------------------------------------------------------------------------


@pytest.mark.parametrize("own", [None, {"error": "it diverged."}, {"metrics": {}}])
def test_the_newest_run_of_another_version_answers_if_asked_for_and_there_is_no_own(
    own: dict[str, object] | None, results: Results
) -> None:
    run = replace(made_up_run("now"), config_id="same")
    results.add({"id": "first", "config_id": "same", "metrics": {}})
    if own is not None:
        results.add({"id": "now", "config_id": "same", **own})
    results.add({"id": "second", "config_id": "same", "metrics": {}})
    results.add({"id": "third", "config_id": "same", "error": "it diverged."})
    results.add({"id": "fourth", "config_id": "other", "metrics": {}})
    results.add({"id": "old", "config": "a key", "environment": "another", "metrics": {}})
    found = results.known_rows([run])
    assert {row["id"] for row in found.values()} == (set() if own is None else {"now"})
    row = results.known_rows([run], any_version=True)["now"]
    assert row["id"] == ("second" if own is None else "now")
    assert ("other_version" in row) is (own is None)
