"""How the figures of `device.py` are read, system by system, from files and from the system's own programs.

A control group's limit (a container) counts like the machine's own memory. Apple silicon shares its memory
with the GPU. The parsers take text or a root folder, so that any machine can be played in a test.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from nightschool.engine.device import Accelerator

APPLE_SHARE = 0.75
"""Of the memory, what Metal lets a process keep on the GPU by default."""
NVIDIA_QUERY = "name,memory.total,memory.free,power.draw"


def accelerator(total: int | None, free: int | None) -> tuple[Accelerator | None, float | None]:
    """The GPU that a backend can use, and the watts that it draws, on a machine with this memory."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        share = int(total * APPLE_SHARE) if total else None
        left = min(share, free) if share is not None and free is not None else None
        return Accelerator("apple", _sysctl("machdep.cpu.brand_string") or "Apple GPU", share, left), None
    return parse_nvidia(_run("nvidia-smi", f"--query-gpu={NVIDIA_QUERY}", "--format=csv,noheader,nounits"))


def parse_nvidia(text: str | None) -> tuple[Accelerator | None, float | None]:
    """The first GPU of nvidia-smi's table (memory in MiB), and the watts that it draws."""
    if not text or not text.strip():
        return None, None
    cells = [cell.strip() for cell in text.strip().splitlines()[0].split(",")]
    if len(cells) != len(NVIDIA_QUERY.split(",")):
        return None, None
    name, total, free, watts = cells[0], *(_number(cell) for cell in cells[1:])
    mebibytes = [int(value * 1024**2) if value is not None else None for value in (total, free)]
    return Accelerator("cuda", name, mebibytes[0], mebibytes[1]), watts


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def memory() -> tuple[int | None, int | None]:
    """Total and free memory."""
    if sys.platform == "linux":
        return linux_memory(Path("/"))
    if sys.platform == "darwin":
        return _int(_sysctl("hw.memsize")), parse_vm_stat(_run("vm_stat"))
    return None, None


def linux_memory(root: Path) -> tuple[int | None, int | None]:
    """Total and free memory by /proc/meminfo, or by the control group where that is less."""
    pairs = dict(re.findall(r"^(\w+):\s+(\d+) kB", _text(root / "proc/meminfo") or "", re.MULTILINE))
    total, free = (int(pairs[key]) * 1024 if key in pairs else None for key in ("MemTotal", "MemAvailable"))
    limit, used = _control_group(root)
    if limit is None or (total is not None and limit >= total):
        return total, free
    left = limit - used if used is not None else None
    return limit, min((value for value in (free, left) if value is not None), default=None)


def _control_group(root: Path) -> tuple[int | None, int | None]:
    """Limit and use of this process's group (version 2, else 1); cached file pages do not count as used."""
    groups = _text(root / "proc/self/cgroup") or ""
    version2 = re.search(r"^0::(/.*)$", groups, re.MULTILINE)
    version1 = re.search(r"^\d+:[^:]*\bmemory\b[^:]*:(/.*)$", groups, re.MULTILINE)
    base = root / "sys/fs/cgroup"
    for group, folder, names in (
        (version2, base, ("memory.max", "memory.current", "inactive_file")),
        (
            version1,
            base / "memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ):
        if group is None:
            continue
        own = folder / group[1].lstrip("/")
        for place in (own, folder):
            limit, used = _int(_text(place / names[0])), _int(_text(place / names[1]))
            if limit is not None:
                cached = re.search(rf"^{names[2]} (\d+)$", _text(place / "memory.stat") or "", re.MULTILINE)
                return limit, used - int(cached[1]) if used is not None and cached else used
    return None, None


def parse_vm_stat(text: str | None) -> int | None:
    """Bytes that macOS could hand out now: free, inactive and purgeable pages."""
    size = re.search(r"page size of (\d+) bytes", text or "")
    pages = re.findall(r"^Pages (?:free|inactive|purgeable):\s+(\d+)\.", text or "", re.MULTILINE)
    return int(size[1]) * sum(map(int, pages)) if size and pages else None


def battery() -> tuple[float | None, bool | None]:
    """Charge in 0..1, and whether the machine is plugged in."""
    if sys.platform == "linux":
        return linux_battery(Path("/"))
    if sys.platform == "darwin":
        return parse_pmset(_run("pmset", "-g", "batt"))
    return None, None


def linux_battery(root: Path) -> tuple[float | None, bool | None]:
    """Charge of the first battery, and whether mains is on."""
    charge: float | None = None
    plugged: bool | None = None
    for supply in sorted((root / "sys/class/power_supply").glob("*")):
        kind = (_text(supply / "type") or "").strip()
        if kind == "Battery" and charge is None:
            percent = _int(_text(supply / "capacity"))
            charge = percent / 100 if percent is not None else None
        elif kind == "Mains":
            plugged = bool(plugged) or _int(_text(supply / "online")) == 1
    return charge, plugged


def parse_pmset(text: str | None) -> tuple[float | None, bool | None]:
    """Charge and mains, by macOS."""
    source = re.search(r"Now drawing from '([^']+)'", text or "")
    percent = re.search(r"(\d+)%", text or "")
    return int(percent[1]) / 100 if percent else None, source[1] == "AC Power" if source else None


def _sysctl(name: str) -> str | None:
    return _run("sysctl", "-n", name)


def _run(program: str, *arguments: str) -> str | None:
    """What a program prints; `None` if it is not there or fails."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        ran = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _int(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
