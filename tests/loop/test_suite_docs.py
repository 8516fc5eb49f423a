"""docs/suites.md: its example loads, its tables say what the code says."""

import json
import re
from pathlib import Path

from nightschool.loop.settings import EvolveSettings
from nightschool.loop.suite import load_suite
from nightschool.loop.suite_check import check_suite

DOCS = Path(__file__).parents[2] / "docs" / "suites.md"


def test_the_example_in_the_docs_loads(tmp_path: Path) -> None:
    blocks = re.findall(r"^(\S+)\n\n```(?:toml|jsonl|text)\n(.*?)```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    names = [name for name, _ in blocks]
    assert names == ["suite.toml", "train.jsonl", "val.jsonl", "test.jsonl", "files/log.txt"]
    for name, text in blocks:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    suite = load_suite(tmp_path)
    assert not [finding for finding in check_suite(suite) if finding.level == "error"]
    assert {task.grader.kind for task in suite.tasks} == {
        "number",
        "contains",
        "choice",
        "checks",
        "json",
        "regex",
        "exact",
    }


def test_the_docs_name_every_setting() -> None:
    rows = [
        f"| `{field.validation_alias or name}` | {json.dumps(field.default)} | {field.description} |"
        for name, field in EvolveSettings.model_fields.items()
    ]
    assert "\n".join(rows) in DOCS.read_text()
