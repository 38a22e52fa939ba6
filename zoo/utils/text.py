"""Text to show: Markdown tables, and text without secrets and control characters."""

import os
import re
import sys
from collections.abc import Iterable, Sequence

SECRET = re.compile(r"hf_[A-Za-z0-9]{12,}")  # what a token of the Hub looks like
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # characters that could steer a terminal


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Vertical bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def redact(text: str) -> str:
    """Return `text` with every token of the Hub replaced by *** and every control character by ?."""
    for secret in _secrets():
        text = text.replace(secret, "***")
    return CONTROL.sub("?", SECRET.sub("***", text))


def has_secret(text: str) -> bool:
    """Return whether `text` contains a token of the Hub, or something that looks like one."""
    return SECRET.search(text) is not None or any(secret in text for secret in _secrets())


def _secrets() -> list[str]:
    """Return the tokens that a request could carry: of the environment, and the one that `hf auth login` stored."""
    client = sys.modules.get("huggingface_hub")  # only this module reads the stored token
    tokens = [os.environ.get("HF_TOKEN"), os.environ.get("HUGGING_FACE_HUB_TOKEN"), client and client.get_token()]
    return [token.strip() for token in tokens if token and len(token.strip()) >= 4]
