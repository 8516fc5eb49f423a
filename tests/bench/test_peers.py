"""Peers as scripts of a test's own: what one tells is kept, and what one cannot do is shown; no figure is asserted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nightschool.bench import peers
from nightschool.bench.peers import Told

ANSWER = '{"seconds": 2.0, "tokens": 8, "free_seconds": 1.0, "compile": 0.5, "valid": 1.0}'


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(peers, "HERE", tmp_path)
    (tmp_path / "peer_good.py").write_text(f"print('noise')\nprint('''{ANSWER}''')\n")
    (tmp_path / "peer_weak.py").write_text('print(\'{"cannot": "has no grammar"}\')\n')
    (tmp_path / "peer_slow.py").write_text("import time\ntime.sleep(60)\n")
    (tmp_path / "peer_cut.py").write_text("import signal, time\nsignal.setitimer(0, 0.01)\ntime.sleep(60)\n")
    (tmp_path / "peer_broken.py").write_text("raise ValueError('no such model')\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("weak", "has no grammar"),
        ("slow", "cut after 0.5 s"),
        ("cut", "a compile was cut"),
        ("broken", "failed: ValueError: no such model"),
        ("unknown", "there is no peer unknown"),
        ("llama_cpp", "not installed"),
    ],
)
def test_what_a_peer_cannot_do_is_told(name: str, why: str, scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    told = Told()
    peers._turn(name, "python3", ["job.json", "messages.json"], 0.5 if name == "slow" else 30, told)
    assert told.why.startswith(why) and not told.answers


def test_a_ratio_is_the_peers_time_over_ours(scripts: Path) -> None:
    told = {peers.OURS: Told([{**json.loads(ANSWER), "seconds": 1.5}]), "good": Told()}
    peers._turn("good", "python3", ["job.json", "messages.json"], 30, told["good"])
    told["weak"] = Told(why="has no grammar")
    found = {(one.name, one.params["side"]): one for one in peers._figures("schema", told, 4)}
    assert found["seconds, peer / ours", "good"].samples == (2.0 / 1.5,)
    assert found["above free, peer / ours", "good"].samples == (1.0 / 0.5,)
    assert found["seconds", "weak"].samples == () and found["seconds", "weak"].note == "has no grammar"


def test_schemas_of_different_rows_differ() -> None:
    assert len({peers.schema(row) for row in range(32)}) == 32
