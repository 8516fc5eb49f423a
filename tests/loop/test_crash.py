"""Killed anywhere, a night goes on, and ends as if nothing had happened."""

import json
import subprocess
import sys
from pathlib import Path

DRIVER = Path(__file__).with_name("crash_driver.py")


def test_a_night_killed_at_every_write_ends_the_same(tmp_path: Path) -> None:
    """Each call that changes the disk is once the last one, writes cut in half; then the night is resumed."""
    done = subprocess.run([sys.executable, str(DRIVER), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] > 150
    assert told["again"] > 3
    calm = [json.loads(line) for line in (tmp_path / "calm" / "journal.jsonl").read_text().splitlines()]
    assert [event["accepted"] for event in calm if event["event"] == "gate"] == [True, False]
