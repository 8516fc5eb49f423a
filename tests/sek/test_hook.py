"""The hook in an agent's settings: beside what is there, once, with a copy, and out again to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightschool.disk.errors import Problem
from nightschool.sek.hook import COPY, command, install, remove

CALL = "nightschool sek context"
OTHER = {"type": "command", "command": "./check.sh"}
SETTINGS = """{
    "model": "opus",
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
              "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "./date.sh"}]}]},
    "note": "größer"
}"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / ".claude").mkdir()
    return tmp_path / ".claude/settings.json"


def hooks(file: Path) -> Any:
    return json.loads(file.read_text())["hooks"]


def test_a_new_file_holds_the_documented_form(file: Path) -> None:
    assert install(file, CALL)
    ours = {"type": "command", "command": CALL, "timeout": 10}
    assert hooks(file) == {
        "UserPromptSubmit": [{"hooks": [ours]}],
        "SessionStart": [{"matcher": "clear|compact", "hooks": [ours]}],
    }
    assert not install(file, CALL)
    assert remove(file) and not file.exists() and not remove(file)
    assert list(file.parent.iterdir()) == []


def test_what_is_there_stays_and_comes_back_to_the_byte(file: Path) -> None:
    file.write_text(SETTINGS)
    assert install(file, CALL) and file.with_name(file.name + COPY).read_text() == SETTINGS
    assert json.loads(file.read_text())["note"] == "größer" and '    "model"' in file.read_text()
    assert [entry["hooks"][0]["command"] for entry in hooks(file)["UserPromptSubmit"]] == ["./date.sh", CALL]
    assert remove(file) and file.read_text() == SETTINGS
    assert sorted(path.name for path in file.parent.iterdir()) == ["settings.json"]


def test_settings_that_were_edited_since_lose_our_entries_only(file: Path) -> None:
    file.write_text(SETTINGS)
    install(file, CALL)
    edited = json.loads(file.read_text())
    edited["model"] = "sonnet"
    edited["hooks"]["UserPromptSubmit"][1]["hooks"].append(OTHER)
    file.write_text(json.dumps(edited))
    assert remove(file)
    now = json.loads(file.read_text())
    assert now["model"] == "sonnet" and CALL not in file.read_text()
    assert now["hooks"]["UserPromptSubmit"][1] == {"hooks": [OTHER]} and "SessionStart" not in now["hooks"]


def test_another_way_to_call_us_takes_the_place_of_the_old_one(file: Path) -> None:
    install(file, '"/usr/bin/python" -m nightschool.cli sek context')
    assert install(file, CALL) and len(hooks(file)["UserPromptSubmit"]) == 1
    assert remove(file) and not file.exists()


def test_an_empty_file_is_empty_settings(file: Path) -> None:
    file.write_text("")
    assert install(file, CALL) and remove(file) and file.read_text() == ""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{\n  // no\n}", r"settings\.json:2: not JSON"),
        ("[]", "not a JSON object"),
        ('{"hooks": []}', '"hooks" is not an object'),
        ('{"hooks": {"UserPromptSubmit": {}}}', "is not a list"),
        ('{"limit": 1e400}', "JSON cannot spell"),
        ('{"limit": NaN}', "JSON cannot spell"),
    ],
)
def test_settings_that_cannot_be_merged_are_left_alone(file: Path, text: str, what: str) -> None:
    file.write_text(text)
    with pytest.raises(Problem, match=what):
        install(file, CALL)
    assert file.read_text() == text and len(list(file.parent.iterdir())) == 1


def test_odd_entries_of_others_are_passed_over(file: Path) -> None:
    odd = {"hooks": {"UserPromptSubmit": ["x", {"hooks": "y"}, {"hooks": [3]}], "Stop": 7}}
    file.write_text(json.dumps(odd))
    assert install(file, CALL) and hooks(file)["UserPromptSubmit"][:3] == odd["hooks"]["UserPromptSubmit"]
    assert remove(file) and json.loads(file.read_text()) == odd


def test_the_call_is_ours_whatever_python_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert command().endswith("-m nightschool.cli sek context")
