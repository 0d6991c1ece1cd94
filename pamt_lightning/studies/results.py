"""Results on disk: one JSON line per run, only ever appended.

Several commands may work on one folder. A run is claimed by a file lock, which the system releases
when its process dies; a line is written whole or not at all.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pamt_lightning.errors import InputError
from pamt_lightning.studies.runs import Run

RUNS = "runs.jsonl"
Row = dict[str, Any]


class Results:
    """The file ``runs.jsonl`` in a folder, which is created if it does not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / RUNS
        self._claims = folder / ".claims"
        self._claimed: dict[str, FileLock] = {}
        try:
            self._claims.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}: {error.strerror}.") from None

    def rows(self) -> dict[str, Row]:
        """All runs by id; of a run that failed and was then finished, the finished one."""
        found: dict[str, Row] = {}
        for _, row in self._lines():
            if row is None:  # cut off by a kill or a full disk: that run is computed again
                continue
            old = found.get(row["id"])
            if old is None or old.get("error") is not None:
                found[row["id"]] = row
        return found

    def known_rows(self, runs: Iterable[Run], *, any_version: bool = False) -> dict[str, Row]:
        """The rows of some runs, by run id.

        With ``any_version``, a run without a row gets the newest finished one of the same
        configuration and another results version, marked ``other_version``.
        """
        rows = self.rows()
        others = {
            str(row["config_id"]): row
            for row in rows.values()
            if any_version and "config_id" in row and row.get("error") is None
        }
        found = {}
        for run in runs:
            if run.run_id in rows:
                found[run.run_id] = rows[run.run_id]
            elif run.config_id in others:
                found[run.run_id] = {**others[run.config_id], "other_version": True}
        return found

    def damaged(self) -> str | None:
        """A sentence about lines that cannot be read; None without such lines."""
        bad = [number for number, row in self._lines() if row is None]
        if not bad:
            return None
        lines = "1 line" if len(bad) == 1 else f"{len(bad)} lines"
        return (
            f"{self.path}: {lines} cannot be read, the first is line {bad[0]}; their runs count as "
            "missing, and are computed again without --report."
        )

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a run."""
        line = json.dumps(_finite(row), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            with FileLock(self._claims / f"{RUNS}.lock"), self.path.open("ab+") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # a writer was killed in the middle of a line
                        file.write(b"\n")
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}.") from None

    def claim(self, run_id: str, *, retry: bool = False) -> bool:
        """Claim a run; false if another command has it or it is finished.

        With ``retry``, a run that failed is not finished.
        """
        lock = FileLock(self._claims / f"{run_id}.lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            return False
        self._claimed[run_id] = lock
        # Read again: another command may have finished it since the last look.
        row = self.rows().get(run_id)
        if row is None or (retry and row.get("error") is not None):
            return True
        self.release(run_id)
        return False

    def release(self, run_id: str) -> None:
        """Give a claim back."""
        lock = self._claimed.pop(run_id)
        with suppress(OSError):  # Windows does not remove an open file; it is empty anyway
            Path(lock.lock_file).unlink()
        lock.release()

    def _lines(self) -> Iterator[tuple[int, Row | None]]:
        """Each line with its number; None for a line that is not a row."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                is_row = isinstance(row, dict) and isinstance(row.get("id"), str)
                yield number, row if is_row else None


def _finite(value: Any) -> Any:
    """With infinity and NaN as strings: JSON has no numbers for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
