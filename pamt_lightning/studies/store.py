"""Results on disk: one JSON line per finished run, only ever added to.

Several processes may work on one folder. A run is claimed by a lock that the system gives back when
its process dies, however it dies; a line is added whole or not at all.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pamt_lightning.errors import InputError
from pamt_lightning.studies.fingerprint import digest

RUNS, CONTEXT = "runs.jsonl", "context.jsonl"


class Store:
    """The results in one folder.

    ``runs.jsonl`` has a line for each run; ``context.jsonl`` has what many of them share (a
    configuration, an environment), which they name by its key.

    Args:
        folder: Made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._claims = folder / ".claims"
        try:
            self._claims.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}: {error.strerror}.") from None
        self._known: set[str] = set()

    def rows(self) -> dict[str, dict[str, Any]]:
        """All runs by their ids; of a run that failed and was then finished, the finished one."""
        found: dict[str, dict[str, Any]] = {}
        for row in self._lines(RUNS, "id"):
            old = found.get(row["id"])
            if old is None or old.get("error") is not None:
                found[row["id"]] = row
        return found

    def damaged(self) -> list[str]:
        """What to tell of lines that cannot be read: those runs count as not done."""
        told = []
        for name, key in ((RUNS, "id"), (CONTEXT, "key")):
            bad = [number for number, row in self._numbered(name, key) if row is None]
            if bad:
                told.append(
                    f"{self.folder / name}: what cannot be read counts as not there, {len(bad)} in "
                    f"all, the first in line {bad[0]}; without --report those runs are done again."
                )
        return told

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a run."""
        self._append(RUNS, row)

    def add_context(self, kind: str, content: Mapping[str, Any]) -> str:
        """Keep something that runs share; returns its key."""
        key = digest(content)
        if key not in self._known:
            self._known |= set(self.context())
        if key not in self._known:
            self._append(CONTEXT, {"key": key, "kind": kind, "content": content})
            self._known.add(key)
        return key

    def context(self) -> dict[str, Any]:
        """All that runs share, by key."""
        return {line["key"]: line.get("content") for line in self._lines(CONTEXT, "key")}

    @contextmanager
    def claim(self, run_id: str, *, retry: bool = False) -> Iterator[bool]:
        """Whether the run is ours to do: no other process is at it, and none has done it.

        Args:
            run_id: The run.
            retry: Whether a run that failed counts as not done.
        """
        path = self._claims / f"{run_id}.lock"
        lock = FileLock(path, blocking=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            # Looked at again: it may have been finished between our last look and the lock.
            row = self.rows().get(run_id)
            yield row is None or (retry and row.get("error") is not None)
        finally:
            with suppress(OSError):  # Windows does not remove an open file; it is empty anyway
                path.unlink()
            lock.release()

    def is_claimed(self, run_id: str) -> bool:
        """Whether some process is at this run."""
        path = self._claims / f"{run_id}.lock"
        if not path.exists():
            return False
        try:
            with FileLock(path, blocking=False):
                return False
        except Timeout:
            return True

    def _lines(self, name: str, key: str) -> Iterator[dict[str, Any]]:
        # A line may be cut off by a kill or a full disk: that run is done again.
        return (row for _, row in self._numbered(name, key) if row is not None)

    def _numbered(self, name: str, key: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Each line with its number; none for one that is not as we write them."""
        path = self.folder / name
        if not path.exists():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                is_ours = isinstance(row, dict) and isinstance(row.get(key), str)
                yield number, row if is_ours else None

    def _append(self, name: str, row: Mapping[str, Any]) -> None:
        path = self.folder / name
        line = json.dumps(_finite(row), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            with (
                FileLock(self._claims / f"{name}.lock"),
                path.open("ab+") as file,
            ):
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    if file.read(1) != b"\n":  # what a killed writer left behind
                        file.write(b"\n")
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}.") from None


def _finite(value: Any) -> Any:
    """With infinity as a word, as an option may have it: JSON has no number for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
