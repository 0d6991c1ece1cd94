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


class Claim:
    """The right to compute a run, held until it is released or the process dies."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self._path, self._lock = path, lock

    def release(self) -> None:
        """Let other commands have the run."""
        with suppress(OSError):  # Windows does not remove an open file; it is empty anyway
            self._path.unlink()
        self._lock.release()


class Results:
    """The results in one folder, in the file ``runs.jsonl``.

    Args:
        folder: Created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / RUNS
        self._claims = folder / ".claims"
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
        """The rows that answer some runs, by the ids of these runs.

        Args:
            runs: What is wanted.
            any_version: Whether a run without a row may be answered by a finished one of the same
                configuration and another results version. Of several the newest is taken; it is
                marked ``other_version``.
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
        """A sentence about lines that cannot be read, if there are any."""
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
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    if file.read(1) != b"\n":  # a writer was killed in the middle of a line
                        file.write(b"\n")
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}.") from None

    def claim(self, run_id: str, *, retry: bool = False) -> Claim | None:
        """Claim a run; None if another command has it or it is finished.

        Args:
            run_id: The run.
            retry: Whether a run that failed counts as not finished.
        """
        path = self._claims / f"{run_id}.lock"
        lock = FileLock(path, blocking=False)
        try:
            lock.acquire()
        except Timeout:
            return None
        claim = Claim(path, lock)
        # Read again: another command may have finished it since the last look.
        row = self.rows().get(run_id)
        if row is None or (retry and row.get("error") is not None):
            return claim
        claim.release()
        return None

    def is_claimed(self, run_id: str) -> bool:
        """Whether some command has claimed this run."""
        path = self._claims / f"{run_id}.lock"
        if not path.exists():
            return False
        try:
            with FileLock(path, blocking=False):
                return False
        except Timeout:
            return True

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
    """With infinity and NaN as words: JSON has no numbers for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
