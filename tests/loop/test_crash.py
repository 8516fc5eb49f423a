"""Killed anywhere, a night goes on, and ends as if nothing had happened."""

import json
import os
import subprocess
import sys
from pathlib import Path

DRIVER = Path(__file__).with_name("crash_driver.py")


def test_a_night_killed_at_every_write_ends_the_same(tmp_path: Path) -> None:
    """Each call that changes the disk is once the last one, writes cut in half; then the night is resumed."""
    step = int(os.environ.get("NIGHTSCHOOL_KILL_STEP", "1"))
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path), "1", str(step)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] * step > 200
    assert told["accepted"] >= 1
