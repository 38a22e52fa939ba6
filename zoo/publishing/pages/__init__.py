"""The pages of docs/ and the generated parts of README.md: one module for a page or for a table."""


def card_link(model: str, text: str = "", root: str = "../") -> str:
    """Return a Markdown link to the card of a model. text: what to show (default: its name). root: the path to the repository."""
    return f"[{text or f'`{model}`'}]({root}cards/{model}/README.md)"
