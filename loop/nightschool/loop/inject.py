"""What a task's student reads of the skills, and what it may look up: all skills, or those that speak of the task.

`routed` ranks the skills by the router's own measure (nightschool.sek.ranking) over name, description and body, the section
of when not to apply left out; a skill that shares nothing with the task is not injected. The same measure picks the wiki
pages that a student is offered. Nothing here knows of engines.
"""

from __future__ import annotations

from functools import lru_cache

from nightschool.loop.skills import Skill, SkillSet, replace_section
from nightschool.loop.wiki import Page, Wiki
from nightschool.sek.ranking import Ranking
from nightschool.sek.terms import Terms

MOST_SKILLS = 8
MOST_PAGES = 12


def chosen(skills: SkillSet, prompt: str, how: str) -> SkillSet:
    """The skills for one task, in name order."""
    if how == "full":
        return skills
    picked = {skills.skills[entry.number].name for entry in _by_skill(skills).fitting(prompt, MOST_SKILLS)}
    return SkillSet(tuple(skill for skill in skills.skills if skill.name in picked))


def offered(wiki: Wiki, prompt: str) -> tuple[Page, ...]:
    """The pattern pages that fit one task, the best first."""
    return tuple(wiki.pages[entry.number] for entry in _by_page(wiki).fitting(prompt, MOST_PAGES))


@lru_cache(maxsize=4)
def _by_skill(skills: SkillSet) -> Ranking:
    return Ranking(Terms.of({skill.name: _told(skill) for skill in skills.skills}))


@lru_cache(maxsize=2)
def _by_page(wiki: Wiki) -> Ranking:
    return Ranking(Terms.of({page.id: page.text for page in wiki.pages}))


def _told(skill: Skill) -> str:
    return f"{skill.description}\n\n{replace_section(skill.body, 'When NOT to Apply', '')}"
