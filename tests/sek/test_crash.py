"""SIGKILL at every write of a promotion, a critical rule, a revocation and an ingest: all of it stands, or nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_killed_at_every_write(tmp_path: Path) -> None:
    driver = Path(__file__).with_name("crash_driver.py")
    done = subprocess.run([sys.executable, str(driver), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = {name: int(number) for name, number in re.findall(r"(\w+): (\d+) kill points", done.stdout)}
    assert points.keys() == {"promote", "core", "revoke", "ingest"} and min(points.values()) >= 10, done.stdout
