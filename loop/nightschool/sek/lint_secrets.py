"""Secrets and e-mail addresses in a text. What is made up (example.com, sk-xxxx, YOUR_KEY) is only worth a warning."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from nightschool.sek.lint_base import Finding

_SECRETS = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})\b")),
    ("a GitLab token", re.compile(r"\bglpat-[\w-]{20,}\b")),
    ("a Slack token", re.compile(r"\bxox[abposr]-[\w-]{10,}\b")),
    ("an API key", re.compile(r"\bsk-(?:ant-|proj-|live-)?[A-Za-z0-9_-]{20,}\b")),
    ("a Stripe key", re.compile(r"\b[sr]k_live_[A-Za-z0-9]{16,}\b")),
    ("a Google API key", re.compile(r"\bAIza[\w-]{35}\b")),
    ("an npm token", re.compile(r"\bnpm_[A-Za-z0-9]{36}\b")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    ("a JSON web token", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    ("a password in an address", re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@`]{1,64}:([^\s:/@`]{3,64})@[\w.-]+")),
    (
        "a secret",
        re.compile(
            r"(?i)\b(?:api[_-]?key|secret(?:[_-]?key)?|access[_-]?token|auth[_-]?token|passw(?:or)?d|client[_-]?secret)"
            r"[\"']?[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9+/_.~-]{12,128})(?![\w(])"
        ),
    ),
)
_EMAIL = re.compile(r"(?<![\w.+/@-])([A-Za-z0-9._%+-]{1,64})@((?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,24})(?![\w@/])")
_FAKE = re.compile(
    r"example|sample|dummy|fake|test|your|placeholder|changeme|redacted|secret|password|x{4,}|\.{3}|\*{3}|<|\$\{|0{6,}"
    r"|1234|abcd|todo|process\.env|environ|getenv|config[.(]",
    re.I,
)
_FAKE_DOMAIN = re.compile(r"(?:^|\.)(?:example|test|invalid|localhost|local|acme|domain|company|email)(?:\.|$)", re.I)
_NOBODY = re.compile(r"users?|users?name|you|your.*|me|foo|bar|alice|bob|john|jane|name|admin|info|test.*")
_NO_MAIL = frozenset(
    {"md", "ts", "js", "py", "json", "vue", "png", "tsx", "jsx", "css", "html", "sh", "yml", "yaml", "x"}
)
_LEAST_ENTROPY = 3.0
"""Bits a character below which a value is a word and no secret."""
WHY_SECRET = "what stands in a wiki is read by every agent, and kept by git"
WHY_MAIL = "an address belongs to a person, who did not ask to be in every prompt"


def secrets(path: str, text: str, first: int = 1) -> Iterator[Finding]:
    """Everything in a text that looks like a secret or an e-mail address; its lines count from `first`."""
    for number, line in enumerate(text.split("\n"), start=first):
        if len(line) < 8:
            continue
        yield from _secrets(path, line, number)
        yield from _mails(path, line, number)


def _secrets(path: str, line: str, number: int) -> Iterator[Finding]:
    for name, expression in _SECRETS:
        match = expression.search(line)
        if match is None:
            continue
        value = match[1] if match.lastindex else match[0]
        if name == "a secret" and (_entropy(value) < _LEAST_ENTROPY or not re.search(r"\d", value)):
            continue
        fake = bool(_FAKE.search(value)) or _entropy(value) < 2.5
        advice = "write where it is kept (an environment variable), never what it is; then revoke it"
        shown = f"{value[:4]}…"
        yield Finding(
            path,
            number,
            "secret",
            f"{name}, it seems: {shown}" + (", made up" if fake else ""),
            WHY_SECRET,
            "nothing, if it is an example" if fake else advice,
            "warning" if fake else "error",
        )
        return


def _mails(path: str, line: str, number: int) -> Iterator[Finding]:
    for match in _EMAIL.finditer(line):
        who, domain = match[1], match[2]
        if domain.rsplit(".", 1)[-1].lower() in _NO_MAIL or who.lower() in ("git", "noreply", "no-reply"):
            continue
        fake = bool(_FAKE_DOMAIN.search(domain)) or _NOBODY.fullmatch(who.lower()) is not None
        yield Finding(
            path,
            number,
            "e-mail",
            f"an e-mail address: {who[:2]}…@{domain}" + (", made up" if fake else ""),
            WHY_MAIL,
            "nothing, if it is an example" if fake else "name the role, or where the address is kept",
            "warning" if fake else "error",
        )


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts) if text else 0.0
