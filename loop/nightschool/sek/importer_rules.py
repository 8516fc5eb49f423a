"""Which rules of an instruction file hold everywhere: plain code that weighs words, not a model.

A rule is one paragraph or one item of a list that says never, always, must, do not, 禁止, 必須 and their like. It holds
everywhere if nothing ties it to a topic: no condition before it, little code in it, and best of all a heading that names no
topic (Rules, Important reminders, 核心原則) or a word of permission (without approval, unless asked). What holds only for
some files or commands stays with its topic. Where the rules go is left to `importer_core`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nightschool.sek.importer_sections import Section, Unit

ENOUGH = 3.0
"""Points from which a rule holds everywhere."""
_ABSOLUTE = re.compile(
    r"\b(?:NEVER|DO NOT|Do NOT|DON'T|MUST NOT|FORBIDDEN|PROHIBITED|NO EXCEPTIONS?)\b"
    r"|under no circumstances|絕對|绝对|禁止|嚴禁|严禁|絶対|никогда|запрещ|ЗАПРЕЩ|niemals|\bjamais\b|\bnunca\b",
)
_STRONG = re.compile(
    r"\b(?:ALWAYS|MUST|MANDATORY|REQUIRED|CRITICAL|IMPORTANT|ONLY)\b|[Nn]on-negotiable"
    r"|必須|必须|務必|务必|永遠|永远|一律|不得|必ず|всегда|обязательно|\bimmer\b|\btoujours\b|\bsiempre\b"
)
_OPENS = re.compile(
    r"(?:^\W*|[.!?:;—-]\s+)(?:you must|never|always|do not|don't|make sure|ensure)\b"
    r"|(?:^\W*|[。：])\s*(?:不要|不可|始終|始终|請勿|请勿)",
    re.I | re.M,
)
_WEAK = re.compile(r"\b(?:never|always|must|do not|don't|should not|may not)\b|不要|不可|始終", re.I)
_URGENT = re.compile(
    r"\b(?:critical|important|mandatory|golden|key|non-negotiable)\b|原則|原则|重要|必讀|必读|必須|禁止|важно", re.I
)
_NEUTRAL = """
    rule rules reminder reminders convention conventions principle principles guideline guidelines general critical
    important mandatory golden tips constraints requirements key core basic basics instruction instructions must never
    always do don t dont dos donts not this these claude code agent agents ai assistant project global note notes for the
    of and to a in please read first follow non negotiable 規則 规则 原則 原则 核心 重要 注意 事項 事项 準則 准则 必讀 必读
    правила важно основные
"""
_NAMES_NOTHING = frozenset(_NEUTRAL.split())
_TITLE_WORD = re.compile(r"[^\W\d_]+")
_EVERY = re.compile(
    r"\b(?:all|every|any|anywhere|everywhere|everything|nothing)\b|所有|任何|每個|每个|一切|すべて|все[гх]", re.I
)
_EVERY_CHANGE = re.compile(
    r"\b(?:every|any|all|each|making|make) (?:code )?(?:changes?|tasks?|commits?|edits?)\b|每次|任何(?:修改|變更|改動)",
    re.I,
)
_PERMISSION = re.compile(
    r"without (?:\w+ )?(?:approval|permission|asking|confirmation|consent)"
    r"|unless (?:\w+ ){0,3}(?:asked|requested|told|necessary)"
    r"|explicitly (?:asked|requested|told)|未經(?:許可|同意|授權)|未经(?:许可|同意|授权)|除非.{0,6}(?:要求|必要)",
    re.I,
)
_CONDITION = re.compile(
    r"\W*(?:when|whenever|if|for|after|before|once|in|on|during|while|as|with)\b"
    r"|\W*(?:當|当|如果|若|在|針對|针对|對於|对于)",
    re.I,
)
_BOLD_START = re.compile(r"[^\w*_]{0,4}(?:\*\*|__)(.+?)(?:\*\*|__)")
_CODE = re.compile(r"`[^`\n]+`|\b[A-Za-z_]\w*(?:::|\.\w+\()|\bhttps?://")
_MARKER = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_NESTED = re.compile(r"\n[ \t]*(?:[-*+]|\d{1,9}[.)]|```|~~~|>|\|)[ \t]?")
_IMPORT = re.compile(r"(?:^|\s)@[\w./~-]+/", re.M)


@dataclass(frozen=True, slots=True)
class Global:
    """A rule that holds everywhere, and how sure that is."""

    unit: Unit
    points: float

    @property
    def line(self) -> str:
        """The rule in one line, without the mark of a list."""
        return one_line(self.unit.text)


def one_line(text: str) -> str:
    """A paragraph or an item in one line; only white space changes, and the mark of a list goes."""
    return " ".join(_MARKER.sub("", text).split())


def take_global(root: Section, *, imported: bool) -> list[Global]:
    """The rules of a source that hold everywhere, taken out of their sections; `imported`: the source is about a part."""
    found: list[Global] = []
    for section in root.sections():
        rules = [rule for unit in section.own if (rule := _global(unit, section, imported))]
        found += rules
        taken = {id(rule.unit) for rule in rules}
        section.own = [unit for unit in section.own if id(unit) not in taken]
    return found


def is_rule(text: str) -> bool:
    """Whether a text tells what must be or must not be."""
    return any(expression.search(text) for expression in (_ABSOLUTE, _STRONG, _WEAK))


def _global(unit: Unit, section: Section, imported: bool) -> Global | None:
    if unit.kind not in ("paragraph", "item", "quote") or unit.leads or not is_rule(unit.text):
        return None
    if _NESTED.search(unit.text.rstrip()) or _IMPORT.search(unit.text) or len(unit.text) > 900:
        return None
    points = sum(_points(one_line(unit.text), section)) - 2.0 * imported
    return Global(unit, points) if points >= ENOUGH else None


def _points(text: str, section: Section) -> Iterator[float]:
    absolute, strong = _ABSOLUTE.search(text), _STRONG.search(text) or _OPENS.search(text)
    yield 3.0 if absolute else 2.0 if strong else 0.5
    yield _generality(section.path[-1] if section.path else "")
    yield 1.0 * bool(_EVERY.search(text))
    yield 1.5 * bool(_EVERY_CHANGE.search(text))
    yield 2.5 * bool(_PERMISSION.search(text))
    yield 1.0 * _is_stressed(text)
    yield -2.0 * bool(_CONDITION.match(text))
    code = len(_CODE.findall(text))
    yield -min(code, 4) * 0.5 - 0.5 * bool(code)
    yield -1.0 * (len(text) > 160) - 2.0 * (len(text) > 400)


def _generality(title: str) -> float:
    """2 for a heading that names no topic, or for none; 1 for one that is urgent."""
    topic = [word for word in _TITLE_WORD.findall(title.casefold()) if word not in _NAMES_NOTHING]
    return 2.0 if not topic else 1.0 * bool(_URGENT.search(title))


def _is_stressed(text: str) -> bool:
    """Whether it begins with the rule itself in bold; a label (`**Placement**: ...`) names a topic instead."""
    bold = _BOLD_START.match(text)
    if bold and bold[1].isupper() and not text[bold.end() :].startswith((":", "：")) and bold[1][-1] not in ":：":
        return True
    return bool(bold and len(bold[1].split()) + len(bold[1]) // 6 > 2 and is_rule(bold[1]))
