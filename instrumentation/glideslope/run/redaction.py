# SPDX-License-Identifier: Apache-2.0
"""Secrets leave what people record before it reaches the disk.

In: a key and a value of a configuration. Out: the value, with `[redacted]` where a secret stood. Imports nothing of
glideslope. Patterns follow detect-secrets and gitleaks; keys are judged by whole words, so that `num_tokens`,
`tokenizer` and `use_cls_token` stay as they are.
"""

from __future__ import annotations

import math
import re
from collections import Counter

REDACTED = "[redacted]"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _any_of(*lines: str) -> re.Pattern[str]:
    return re.compile("|".join(lines))


_SECRET = _any_of(
    "[a-z]*password|[a-z]*passwd|passphrase|passcode|pwd|pass|secret|secrets|credential|credentials|creds|apikey|authkey|privatekey",
    "accesskey|secretkey|authtoken|accesstoken|apitoken|bearer|authorization|pat|dsn",
)
_BEFORE_KEY = _any_of(
    "api|auth|private|client|access|secret|encryption|signing|ssh|license|account|storage|master|service|deploy",
    "session|shared|hmac|aes|rsa|gpg|pgp|wandb|neptune|comet|hf|openai|anthropic|aws|azure|gcp|webhook|kaggle",
)
_BEFORE_TOKEN = _any_of(
    "api|auth|access|bearer|refresh|hf|hub|huggingface|hugging|face|github|gitlab|git|wandb|neptune|comet|mlflow|slack",
    "bot|session|security|oauth|jwt|personal|deploy|service|user|csrf|login|private|secret|client|push|webhook|read",
    "write|admin|account|id|registry|pypi|npm|docker|aws|azure|gcp|sas|app|telegram|discord|kaggle|modal",
)
_BEFORE_PASS = _any_of("db|user|my|root|admin|sudo|smtp|mail|http|proxy|mysql|postgres|redis|mongo")
_PLACE = _any_of("count|len|length|size|dim|dims|id|ids|idx|index|limit|max|min|num|number|type|name|ratio")
"""A key that ends so tells about the secret, not the secret."""

_VALUES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b",
        r"\bhf_[A-Za-z0-9]{30,}\b",
        r"\bapi_org_[A-Za-z0-9]{30,}\b",
        r"\bgl(?:sa|c)_[A-Za-z0-9+/=_-]{20,}",
        r"\beyJrIjoi[A-Za-z0-9+/=_-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        r"\bgh[pousr]_[A-Za-z0-9]{30,}\b",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}\b",
        r"\bgl(?:pat|dt|rt|ptt)-[A-Za-z0-9_-]{18,}",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bxapp-[A-Za-z0-9-]{10,}",
        r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/_+-]+",
        r"(?<=discord\.com/api/webhooks/)[A-Za-z0-9/_-]+",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\bya29\.[A-Za-z0-9_-]{20,}",
        r"\bnpm_[A-Za-z0-9]{30,}\b",
        r"\bpypi-[A-Za-z0-9_-]{30,}",
        r"\bdckr_pat_[A-Za-z0-9_-]{20,}",
        r"\bdop_v1_[a-f0-9]{40,}\b",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"\bkey-[a-f0-9]{32}\b",
        r"\bAccountKey=[A-Za-z0-9+/=]{20,}",
    )
)
_AFTER = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}",
        r"(?i)([?&;](?:x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|sig|"
        r"signature|token|access_token|api_?key|key|password|secret)=)[^&\s\"']+",
        r"(?i)((?:^|[\s'\",])--?[a-z0-9_.-]*(?:api[-_]?key|auth[-_]?key|private[-_]?key|access[-_]?key|secret|passwd|"
        r"password|[-_.]token|-token|credentials?)(?:=|\s+|['\"],\s*['\"])['\"]?)[^\s'\",]+",
        r"(?i)(\b[a-z0-9_]*(?:api_?key|private_?key|access_?key|auth_?key|secret|passwd|password|pwd|[a-z0-9]_token)"
        r"\s*=\s*['\"]?)[^\s'\",;&]+",
    )
)
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@\"'?#]+@")


def redact(key: str, value: str | int | float | bool) -> str | int | float | bool:
    """Return `value`, or `[redacted]`, or the text with its secrets replaced.

    `key` may be a path such as `hub/token`: a secret word anywhere in it covers everything below.
    """
    judged = _judge(key)
    if judged == "secret" and value != "" and not isinstance(value, bool):
        return REDACTED
    if not isinstance(value, str):
        return value
    if value and (judged == "token" or (judged == "key" and _random(value))):
        return REDACTED
    return redact_text(value)


def redact_text(text: str) -> str:
    """Return `text` with secrets of known shape, URL user information and signed queries replaced."""
    for pattern in _VALUES:
        text = pattern.sub(REDACTED, text)
    for pattern in _AFTER:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return _USERINFO.sub(rf"\1{REDACTED}@", text)


def is_secret_flag(word: str) -> bool:
    """Whether a word of a command line is an option whose next word is a secret."""
    return word.startswith("-") and "=" not in word and _judge(word.lstrip("-")) in ("secret", "token")


def _judge(key: str) -> str:
    """`secret`: its value goes whatever it is; `token`: its text goes; `key`: its text goes if it looks random."""
    for part in key.split("/"):
        words = [word.lower() for word in _WORDS.findall(part)]
        for position, word in enumerate(words):
            before = words[position - 1] if position else ""
            last = position == len(words) - 1
            if not last and _PLACE.fullmatch(words[-1]):
                continue
            if word == "pass" and not _BEFORE_PASS.fullmatch(before):
                continue
            if _SECRET.fullmatch(word) or (word in ("key", "keys") and _BEFORE_KEY.fullmatch(before)):
                return "secret"
            if word == "token" and last and (not before or _BEFORE_TOKEN.fullmatch(before)):
                return "token"
            if word == "tokens" and last and before in ("api", "auth", "access", "refresh"):
                return "token"
    words = [word.lower() for word in _WORDS.findall(key.rpartition("/")[2])]
    return "key" if words and words[-1] in ("key", "token") else ""


def _random(text: str) -> bool:
    """Whether a text looks like a key: long, one word, letters and digits, 3.5 bits or more a character (gitleaks)."""
    if len(text) < 20 or not re.fullmatch(r"[A-Za-z0-9+/=_.~-]+", text):
        return False
    if not re.search(r"[0-9]", text) or not re.search(r"[A-Za-z]", text):
        return False
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts) >= 3.5
