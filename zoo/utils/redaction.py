"""Remove tokens of the Hub, and characters that would steer a terminal, from text that is shown or logged."""

import os
import re
import sys

SECRET = re.compile(r"hf_[A-Za-z0-9]{12,}")
"""What a token of the Hub looks like."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def redact(text: str) -> str:
    """Return `text` with every token replaced by *** and every control character by ?."""
    for secret in _secrets():
        text = text.replace(secret, "***")
    return CONTROL.sub("?", SECRET.sub("***", text))


def has_secret(text: str) -> bool:
    """Return True if `text` contains a token, or what looks like one."""
    return SECRET.search(text) is not None or any(secret in text for secret in _secrets())


def _secrets() -> list[str]:
    """The tokens that a request could carry: those of the environment, and the one that `hf auth login` stored.

    Only huggingface_hub reads the stored token, so it cannot be in any text before that module is imported.
    """
    client = sys.modules.get("huggingface_hub")
    tokens = [os.environ.get("HF_TOKEN"), os.environ.get("HUGGING_FACE_HUB_TOKEN"), client and client.get_token()]
    return [token.strip() for token in tokens if token and len(token.strip()) >= 4]
