"""Prepares text for output: Markdown tables, and text without secrets and control characters."""

import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

SECRET = re.compile(r"hf_[A-Za-z0-9]{12,}")  # what a token of the Hub looks like
TOKEN = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_.~+/=-]{16,}")  # what any token looks like, and no word or number of ours
SIGNED = re.compile(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>]*(?:signature|x-amz-|policy=|sig=)[^\s\"'<>]*", re.I)
BIDI = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # they turn the direction of text, or end a line
CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}]")  # characters that could steer a terminal


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of `header` and `rows`. Vertical bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def escaped(text: str) -> str:
    """Return `text` with asterisks, underscores and tildes escaped for Markdown; words in backticks stay code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_~])", r"\\\1", part) for part in parts)


def capitalised(text: str) -> str:
    """Return `text` with its first letter as a capital; the others, such as those of RMSE, stay as they are."""
    return text[:1].upper() + text[1:]


def counted(count: int, noun: str) -> str:
    """Return a number of things, such as "1 epoch" or "10,000 test examples"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ahead_text(*horizons: int | str) -> str:
    """Return how far ahead forecasts are, such as "1 step ahead" or "5, 25 steps ahead"."""
    numbers = ", ".join(map(str, horizons))
    return f"{numbers} step{'' if numbers == '1' else 's'} ahead"


def size_text(count: int) -> str:
    """Return a number of bytes with a unit, such as 1.5 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale * (1 if unit == "kB" else 0.99995):  # 999,999 bytes are 1.0 MB, not 1000.0 kB
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def redact(text: str) -> str:
    """Return `text` with tokens and the signatures in addresses replaced by ***, and control characters replaced by ?."""
    for secret in _secrets():
        text = text.replace(secret, "***")
    return CONTROL.sub("?", SIGNED.sub(r"\1?***", SECRET.sub("***", text)))


def one_line(text: str) -> str:
    """Return untrusted text, such as a name on the Hub, as one line without control characters."""
    return CONTROL.sub("?", " ".join(text.split()))


def has_secret(text: str) -> bool:
    """Return whether `text` contains a token of the Hub, or something that looks like one."""
    return SECRET.search(text) is not None or any(secret in text for secret in _secrets())


def _secrets() -> list[str]:
    """Return the Hub tokens that a request could carry: from the environment, and from `hf auth login`."""
    client = sys.modules.get("huggingface_hub")  # only this module reads the stored token
    tokens = [os.environ.get("HF_TOKEN"), os.environ.get("HUGGING_FACE_HUB_TOKEN")]
    with suppress(OSError, ValueError):  # the request, not its message, reports a token file that cannot be read
        is_file = client is not None and os.path.isfile(client.constants.HF_TOKEN_PATH)  # a pipe would be waited for
        tokens.append(client.get_token() if client and is_file else None)
    return [token.strip() for token in tokens if token and TOKEN.fullmatch(token.strip())]


def significant(value: float) -> str:
    """Return a number with three significant digits, or all of its whole part if that has more; without an exponent."""
    rounded = abs(float(f"{value:.3g}"))  # 99.96 is 100
    if rounded >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.{max(2 - math.floor(math.log10(rounded)), 0)}f}"
