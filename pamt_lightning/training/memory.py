"""Memory of this process and of the machine, where Linux reports it. Nothing here imports torch."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_STATUS = "/proc/self/status"


def available_memory() -> int | None:
    """Bytes that this process may still allocate; None if the system does not report it."""
    found = []
    if (free := _bytes("/proc/meminfo", "MemAvailable:")) is not None:
        found.append(free)
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError, KeyError):  # no such file, or no limit ("max")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        parts = dict(line.split() for line in lines)
        files = int(parts["active_file"]) + int(parts["inactive_file"])  # can be reclaimed
        found.append(limit - used + files)
    return min(found, default=None)


def memory_for_each(processes: int) -> int | None:
    """Bytes that each process on this machine may use, including what it holds already."""
    free = available_memory()
    return None if free is None else int(free / processes) + (_bytes(_STATUS, "VmRSS:") or 0)


def peak_memory_mb() -> float | None:
    """Peak resident memory of this process in MB; None if the system does not report it."""
    # Preferred to getrusage, whose peak includes that of the process that started this one.
    peak = _bytes(_STATUS, "VmHWM:")
    if peak is None:
        try:
            import resource
        except ImportError:  # Windows
            return None
        unit = 1 if sys.platform == "darwin" else 1024
        peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1e6, 1)


def _bytes(file: str, name: str) -> int | None:
    """A value of one of Linux's status files; None if there is none."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
    return None
