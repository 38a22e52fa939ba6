"""The equations in the docstrings of cells, as MathML: `h_t = o tanh(c_t)` becomes typeset mathematics."""

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from markupsafe import Markup

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "phi": "φ", "theta": "θ", "tau": "τ", "mu": "μ", "pi": "π",
    "kappa": "κ", "rho": "ρ", "xi": "ξ", "Pi": "Π", "Delta": "Δ",
}  # fmt: skip
FUNCTIONS = {
    "tanh", "sigmoid", "ReLU", "modReLU", "SiLU", "softplus", "exp", "log", "sqrt", "max", "min", "diag", "Re", "Im", "sum",
}  # fmt: skip
NAMES = {"dt", "bar", "margin", "decay", "rate"}
"""Words that are one symbol."""
_WORDS = FUNCTIONS | NAMES | set(GREEK)
OPERATORS = {"*": "⊙", "-": "−", "<=": "≤", ".": "·", "...": "…"}
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z]+\d*)(?P<mark>['~*]*(?=[ ,;.)_^]|$))?(?P<sub>_\{[^}]*\}|_[A-Za-z0-9]+)?(?P<sup>\^\{[^}]*\}|\^-?[A-Za-z0-9]+)?"
    r"|(?P<number>\d+(?:\.\d+)?)(?P<power>\^\{[^}]*\}|\^-?[A-Za-z0-9]+)?|(?P<op>\.\.\.|<=|[=+\-*/()\[\]|^<])|(?P<end>[;,.:])"
    r"|(?P<other>\S)"
)
_WHOLE = re.compile(rf"[^=]*\S = (?!(\d+|{'|'.join(sorted(FUNCTIONS))})$).*[^=+\-*/.]$")
"""A left side, and a right side that is more than a number or the name of a function."""
_ENDS = {"with", "for", "where", "gates", "and", "gate", "is", "layers", "within", "eq", "one", "as"}
"""Words of prose that may follow an equation without punctuation."""


def equations(text: str) -> list[str]:
    """Return the equations in a text, in its own notation: parts with `=` between marks of punctuation, without prose."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.;])\s|\n\n", text.replace("\n", " ")):
        found += _equations_of(sentence)
    return list(dict.fromkeys(found))


def _equations_of(text: str) -> Iterator[str]:
    start: int | None = None
    depth, last = 0, 0
    for match in [*_TOKEN.finditer(text), None]:
        word = match and match["name"]
        symbol = match is not None and (
            match["number"] or match["op"] or (word and (len(word.rstrip("0123456789")) == 1 or word in _WORDS))
        )
        if match is not None and match["end"] == "," and depth > 0:
            symbol = True
        if match is not None and match["op"] == "(" and (first := re.match(r"[A-Z]?[a-z]{2,}", text[match.end() :])):
            symbol = first[0] in _WORDS  # else a remark in parentheses
        if symbol:
            assert match is not None
            start = match.start() if start is None else start
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(match["op"] or "", 0)
            last = match.end()
            continue
        if start is not None:
            ended = match is None or bool(match["end"]) or match["op"] == "(" or word in _ENDS
            piece = text[start:last].strip()
            if ended and depth == 0 and _WHOLE.match(piece):
                yield piece
        start, depth = None, 0


def prose(text: str) -> list[Markup]:
    """Return the paragraphs of a text as HTML, without the equations at their beginning; words in backticks become code."""
    paragraphs = []
    for part in text.split("\n\n"):
        rest = " ".join(part.split())
        for equation in equations(part):
            if rest.startswith(equation):
                rest = rest[len(equation) :].lstrip(" ;,.")
        if rest.strip():
            paragraphs.append(Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(rest))))
    return paragraphs


def mathml(equation: str) -> Markup:
    """Return an equation in the notation of docstrings as MathML, labelled with its text."""
    row = "".join(_elements(list(_TOKEN.finditer(equation))))
    words = escape(equation, {'"': "&quot;"})
    return Markup(f'<math display="block" aria-label="{words}"><mrow>{row}</mrow></math>')


def _elements(tokens: Sequence[re.Match[str]]) -> Iterator[str]:
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token["name"] == "sqrt" and position < len(tokens) and tokens[position]["op"] == "(":
            end = _closing(tokens, position)
            yield f"<msqrt><mrow>{''.join(_elements(tokens[position + 1 : end]))}</mrow></msqrt>"
            position = end + 1
        elif token["op"] == "^" and position < len(tokens) and tokens[position]["op"] == "(":
            end = _closing(tokens, position)
            yield f"<msup><mi></mi><mrow>{''.join(_elements(tokens[position + 1 : end]))}</mrow></msup>"
            position = end + 1
        elif token["name"]:
            following = tokens[position]["op"] if position < len(tokens) else None
            yield _symbol(token, following == "(")
        elif token["number"]:
            number = f"<mn>{token['number']}</mn>"
            yield f"<msup>{number}{_script(token['power'])}</msup>" if token["power"] else number
        else:
            text = token["op"] or token["end"] or token["other"]
            fence = ' stretchy="false"' if text in "()[]|" else ""
            yield f"<mo{fence}>{escape(OPERATORS.get(text, text))}</mo>"


def _closing(tokens: Sequence[re.Match[str]], start: int) -> int:
    """Return the position of the parenthesis that closes the one at `start`, or the end."""
    depth = 0
    for position in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position]["op"] or "", 0)
        if depth == 0:
            return position
    return len(tokens)


def _symbol(token: re.Match[str], called: bool) -> str:
    name = token["name"]
    letter = GREEK.get(name, name) + (token["mark"] or "").replace("'", "′").replace("~", "̃")
    upright = name in FUNCTIONS or len(letter) > 2
    base = (
        f'<mi mathvariant="normal">{letter}</mi>'
        if upright or (name[0].isupper() and name not in ("C", "S"))
        else f"<mi>{letter}</mi>"
    )
    if token["sub"] and token["sup"]:
        element = f"<msubsup>{base}{_script(token['sub'])}{_script(token['sup'])}</msubsup>"
    elif token["sub"]:
        element = f"<msub>{base}{_script(token['sub'])}</msub>"
    elif token["sup"]:
        element = f"<msup>{base}{_script(token['sup'])}</msup>"
    else:
        element = base
    return element if called else f'{element}<mspace width="0.14em"/>'


def _script(text: str) -> str:
    """Return a subscript or a superscript: `_{t-1}`, `_t`, `^T`."""
    inner = text[1:].strip("{}")
    elements = "".join(_elements(list(_TOKEN.finditer(inner)))).replace('<mspace width="0.14em"/>', "")
    return f"<mrow>{elements}</mrow>"
