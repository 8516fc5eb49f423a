"""Skills: SKILL.md (agentskills.io) and PURPOSE.md, as text that a person may edit, and the set of them.

On disk `skills/NAME/{SKILL.md,PURPOSE.md}`. SKILL.md has front matter (name, description, metadata of strings) and the
sections When to Apply, When NOT to Apply, Instructions, Examples. Examples are blocks `Question: ...` / `Answer: ...`
copied by code from tasks that were cited. The module knows nothing of models, gates or proposals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from nightschool.disk import files, frontmatter
from nightschool.disk.errors import Problem

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_EXAMPLES = 8
EXAMPLES = "Examples"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BETWEEN = re.compile(r"\n\s*\n(?=Question: )")
_MARKUP = re.compile(r"^(?:#|---|\.\.\.)|(?<=\n)Question: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """A task and its expected answer, verbatim."""

    question: str
    answer: str

    def render(self) -> str:
        """The block as it stands in SKILL.md, and as the student is asked."""
        return f"Question: {_quoted(self.question)}\nAnswer: {_quoted(self.answer)}"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill: its two files as they stand on disk."""

    name: str
    skill_md: str
    purpose_md: str

    @property
    def front(self) -> Mapping[str, Any]:
        """The front matter of SKILL.md."""
        return frontmatter.split(self.skill_md)[0]

    @property
    def body(self) -> str:
        """SKILL.md without its front matter."""
        return frontmatter.split(self.skill_md)[1].strip() + "\n"

    @property
    def description(self) -> str:
        """What the skill does and when, from its front matter."""
        return str(self.front.get("description", ""))

    def examples(self) -> tuple[str, ...]:
        """The example blocks, as they stand."""
        block = section(self.body, EXAMPLES)
        return tuple(part.strip() for part in _BETWEEN.split(block) if part.strip())

    def with_metadata(self, **values: str) -> Skill:
        """The same skill with more metadata (strings)."""
        front, body = frontmatter.split(self.skill_md)
        metadata = {**dict(front.get("metadata") or {}), **values}
        return Skill(self.name, frontmatter.join({**front, "metadata": metadata}, body), self.purpose_md)

    def with_body(self, body: str) -> Skill:
        """The same skill with another body."""
        return Skill(self.name, frontmatter.join(self.front, body), self.purpose_md)


@dataclass(frozen=True)
class SkillSet(Mapping[str, Skill]):
    """Skills by name, in name order. Its text goes into the student's system prompt in full."""

    skills: tuple[Skill, ...] = field(default=())

    def __getitem__(self, name: str) -> Skill:
        """The skill of this name."""
        for skill in self.skills:
            if skill.name == name:
                return skill
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Names, sorted."""
        return iter([skill.name for skill in self.skills])

    def __len__(self) -> int:
        """How many."""
        return len(self.skills)

    def put(self, skill: Skill) -> SkillSet:
        """The set with this skill added, or in the place of the one of its name."""
        rest = [other for other in self.skills if other.name != skill.name]
        return SkillSet(tuple(sorted([*rest, skill], key=lambda item: item.name)))

    @cached_property
    def prompt(self) -> str:
        """What the student reads: every skill's body in full."""
        return "\n\n".join(skill.body.strip() for skill in self.skills)

    @cached_property
    def sha(self) -> str:
        """Hash of what the student reads."""
        return files.sha256_text(self.prompt)

    def knows(self, question: str) -> bool:
        """Whether some skill already has this question as an example."""
        block = f"Question: {_quoted(question)}\nAnswer: "
        return any(block in skill.skill_md for skill in self.skills)


def render(
    name: str,
    *,
    description: str,
    when: Sequence[str],
    when_not: Sequence[str],
    instructions: Sequence[str],
    examples: Sequence[Example],
    metadata: Mapping[str, str],
) -> str:
    """A new SKILL.md."""
    front = {"name": name, "description": description, "metadata": dict(metadata)}
    body = (
        f"# {name}\n\n## When to Apply\n{bullets(when)}\n\n## When NOT to Apply\n{bullets(when_not)}\n\n"
        f"## Instructions\n{bullets(instructions)}\n\n## {EXAMPLES}\n"
        + "\n\n".join(example.render() for example in examples)
        + "\n"
    )
    return frontmatter.join(front, body)


def add_examples(body: str, examples: Sequence[Example]) -> str:
    """The body with more examples; beyond MAX_EXAMPLES the oldest leave."""
    old = Skill("x", body, "").examples()
    fresh = [example.render() for example in examples]
    blocks = [*[block for block in old if block not in fresh], *fresh][-MAX_EXAMPLES:]
    return replace_section(body, EXAMPLES, "\n\n".join(blocks))


def section(body: str, title: str) -> str:
    """The text under a second-level heading, or an empty text."""
    found = _span(body, title)
    return body[found[0] : found[1]].strip() if found else ""


def replace_section(body: str, title: str, text: str) -> str:
    """The body with the text under this heading replaced; the section is added when it is missing."""
    found = _span(body, title)
    if not found:
        return f"{body.rstrip()}\n\n## {title}\n{text}\n"
    rest = body[found[1] :].lstrip("\n")
    return f"{body[: found[0]].rstrip()}\n{text.strip()}\n" + (f"\n{rest}" if rest else "")


def load(folder: Path) -> SkillSet:
    """All skills of a folder, validated."""
    if not folder.is_dir():
        return SkillSet()
    return SkillSet(tuple(read(path) for path in sorted(folder.iterdir()) if path.is_dir() and path.name[0] != "."))


def read(folder: Path) -> Skill:
    """One skill; a Problem that names the file when it breaks the SKILL.md rules."""
    path = folder / "SKILL.md"
    if not path.is_file():
        raise Problem(f"{folder}: no SKILL.md", "add one, or move the folder out of skills/")
    text = files.read_text(path)
    for fault in faults(text, folder.name):
        raise Problem(f"{path}: {fault}", "mend the file; `nightschool skills validate` lists all faults")
    purpose = folder / "PURPOSE.md"
    return Skill(folder.name, text, files.read_text(purpose) if purpose.is_file() else "")


def write(folder: Path, skills: SkillSet) -> None:
    """Write a set of skills into an empty or missing folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for skill in skills.skills:
        files.write_atomic(folder / skill.name / "SKILL.md", skill.skill_md)
        files.write_atomic(folder / skill.name / "PURPOSE.md", skill.purpose_md)


def faults(text: str, folder_name: str) -> list[str]:
    """What breaks the SKILL.md specification (agentskills.io), one line each."""
    try:
        front, body = frontmatter.split(text)
    except Problem as problem:
        return [problem.what]
    name, description = front.get("name"), front.get("description")
    metadata = front.get("metadata", {})
    checks = {
        "no front matter": not front,
        f"name must match {NAME.pattern} and have at most 64 characters": not isinstance(name, str)
        or not NAME.fullmatch(name)
        or len(name) > 64,
        f"name {name!r} is not the folder's name {folder_name!r}": name != folder_name,
        "description must have 1 to 1024 characters": not isinstance(description, str)
        or not 0 < len(description) <= 1024,
        "description must not contain < or >": isinstance(description, str) and bool(set("<>") & set(description)),
        "metadata must map strings to strings": not isinstance(metadata, dict)
        or any(not isinstance(item, str) for pair in metadata.items() for item in pair),
        "the body is empty": not body.strip(),
    }
    unknown = set(front) - {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    return [fault for fault, broken in checks.items() if broken] + [
        f"unexpected field {key!r}" for key in sorted(unknown)
    ]


def _span(body: str, title: str) -> tuple[int, int] | None:
    headings = list(_HEADING.finditer(body))
    for number, heading in enumerate(headings):
        if heading[1].strip() == title:
            end = headings[number + 1].start() if number + 1 < len(headings) else len(body)
            return heading.end(), end
    return None


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_flat(line)}" for line in lines)


def _quoted(text: str) -> str:
    """Verbatim, save that no line of it can open a heading, end the front matter or begin another example."""
    text = text.strip()
    if "\n" not in text and not text.startswith(("#", "---", "...")):
        return text  # nearly all
    return _MARKUP.sub(r" \g<0>", text)


def _flat(text: str) -> str:
    return " ".join(text.split())
