"""JSON lines: what is read, what is refused with its line, and logs that were torn."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightschool.disk.errors import MachineProblem, Problem
from nightschool.disk.jsonl import AppendLog, read

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), min_size=1, max_size=4)


def test_records_come_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "a"}\r\n\n  \n{"id": "\xe2\x80\xa8"}')
    assert read(tmp_path / "a.jsonl") == [(1, {"id": "a"}), (4, {"id": "\u2028"})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\xff", "not UTF-8"),
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"a": NaN}', "NaN is no finite number"),
        (b'{"a": -Infinity}', "-Infinity is no finite number"),
        (b'{"a": 1e999}', "1e999 is no finite number"),
        (b'{"a": {"b": 1, "b": 2}}', "the key 'b' is given twice"),
        (b'{"a": "\\ud83d"}', "half a surrogate pair"),
        (b'{"a": ' + b"[" * 100_000, "not JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b"{} {}", "not JSON"),
    ],
)
def test_what_is_no_object_is_refused_with_its_line(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1}\n' + line + b'\n{"id": 3}\n')
    for opened in (read, AppendLog):
        with pytest.raises(Problem, match=r"a\.jsonl:2: ") as caught:
            opened(tmp_path / "a.jsonl")
        assert said in caught.value.what
        assert "\n" not in caught.value.what


@settings(max_examples=25)
@given(records=RECORDS)
def test_a_log_holds_what_was_appended(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    log = AppendLog(tmp_path_factory.mktemp("log") / "journal.jsonl")
    assert log.records() == []
    for record in records:
        log.append(record)
    assert log.records() == records == [record for _, record in read(log.path)]
    assert [json.loads(line) for line in log.path.read_text().split("\n")[:-1]] == records


@settings(max_examples=25)
@given(records=RECORDS, data=st.data())
def test_a_log_cut_anywhere_keeps_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "journal.jsonl"
    log = AppendLog(path)
    for record in records:
        log.append(record)
    raw = path.read_bytes()
    cut = raw[: data.draw(st.integers(0, len(raw)))]
    path.write_bytes(cut)
    whole = records[: cut.count(b"\n")]
    assert AppendLog(path).records() == whole
    assert path.read_bytes() == raw[: cut.rfind(b"\n") + 1]
    log.append({"then": 1})
    assert log.records() == [*whole, {"then": 1}]


@pytest.mark.parametrize("torn", [False, True])
def test_a_killed_append_is_there_or_not(tmp_path: Path, process: Any, torn: bool) -> None:
    for number, kill in enumerate(process.kills(torn=torn)):
        log = AppendLog(tmp_path / f"{number}.jsonl")
        log.append({"n": 1})
        other = AppendLog(log.path)
        with kill:
            log.append({"n": 2, "text": "ü" * 50})
        assert AppendLog(log.path).records() in ([{"n": 1}], [{"n": 1}, {"n": 2, "text": "ü" * 50}])
        other.append({"n": 3})
        assert other.records()[-1] == {"n": 3}


def test_an_open_log_mends_what_another_process_tore(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "usage.jsonl")
    log.append({"n": 1})
    with log.path.open("a") as other:
        other.write('{"n": 2, "te')
    log.append({"n": 3})
    assert log.records() == [{"n": 1}, {"n": 3}]


def test_a_full_disk_takes_the_line_back(tmp_path: Path, process: Any) -> None:
    for number, failure in enumerate(process.failures(errno.ENOSPC)):
        log = AppendLog(tmp_path / f"{number}.jsonl")
        log.append({"n": 1})
        with failure:
            log.append({"n": 2})
        assert isinstance(failure.problem, MachineProblem) == failure.happened
        assert log.records() == ([{"n": 1}] if failure.happened else [{"n": 1}, {"n": 2}])


def test_what_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "journal.jsonl")
    with pytest.raises(ValueError, match="JSON compliant"):
        log.append({"a": float("nan")})
    with pytest.raises(Problem, match=r"U\+D83D"):
        log.append({"a": "\ud83d"})
    assert not log.path.exists()
