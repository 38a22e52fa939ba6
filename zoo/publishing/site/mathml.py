"""Typesets the equations in the docstrings of cells, such as `h_t = o tanh(c_t)`, as MathML."""

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
"""Words of several letters that are one symbol."""
_WORDS = FUNCTIONS | NAMES | set(GREEK)
OPERATORS = {"*": "⊙", "-": "−", "<=": "≤", ".": "·", "...": "…"}
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z]+\d*)(?P<mark>['~*]*(?=[ ,;.)_^]|$))?(?P<sub>_\{[^}]*\}|_[A-Za-z0-9]+)?(?P<sup>\^\{[^}]*\}|\^-?[A-Za-z0-9]+)?"
    r"|(?P<number>\d+(?:\.\d+)?)(?P<power>\^\{[^}]*\}|\^-?[A-Za-z0-9]+)?|(?P<op>\.\.\.|<=|[=+\-*/()\[\]|^<])|(?P<end>[;,.:])"
    r"|(?P<other>\S)"
)
_WHOLE = re.compile(rf"[^=]*\S = (?!(\d+|{'|'.join(sorted(FUNCTIONS))})$).*[^=+\-*/.]$")
"""Matches an equation whose right side is more than a number or the name of a function."""
_ENDS = {"with", "for", "where", "gates", "and", "gate", "is", "layers", "within", "eq", "one", "as"}
"""Words that end an equation, because they are prose."""


def equations(text: str) -> list[str]:
    """Return the equations in a docstring, as they are written there, without the prose around them."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.;])\s|\n\n", text.replace("\n", " ")):
        found += _equations_of(sentence)
    return list(dict.fromkeys(found))


def _equations_of(sentence: str) -> Iterator[str]:
    """Yield the equations of a sentence: symbols with balanced parentheses, up to punctuation or a word of _ENDS."""
    run: list[re.Match[str]] = []
    for token in [*_TOKEN.finditer(sentence), None]:
        if token is not None and _is_symbol(token, sentence[token.end() :], depth=_depth(run)):
            run.append(token)
            continue
        if run and _depth(run) == 0 and _may_end(token):
            equation = sentence[run[0].start() : run[-1].end()].strip()
            if _WHOLE.match(equation):
                yield equation
        run = []


def _is_symbol(token: re.Match[str], rest: str, depth: int) -> bool:
    """Return whether `token` may belong to an equation.

    rest: the text after the token. depth: number of parentheses that are open before it.
    """
    if token["name"]:
        return len(token["name"].rstrip("0123456789")) == 1 or token["name"] in _WORDS
    if token["op"] == "(":  # a remark in parentheses begins with a word of prose
        word = re.match(r"[A-Z]?[a-z]{2,}", rest)
        return word is None or word[0] in _WORDS
    return bool(token["number"] or token["op"]) or (token["end"] == "," and depth > 0)


def _depth(tokens: Sequence[re.Match[str]]) -> int:
    """Return the number of parentheses and brackets that are still open after these tokens."""
    return sum({"(": 1, "[": 1, ")": -1, "]": -1}.get(token["op"] or "", 0) for token in tokens)


def _may_end(token: re.Match[str] | None) -> bool:
    """Return whether an equation may end before `token`, which is not a symbol; None is the end of the sentence."""
    return token is None or bool(token["end"]) or token["op"] == "(" or token["name"] in _ENDS


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


_AROUND = {"sqrt": "<msqrt><mrow>{}</mrow></msqrt>", "^": "<msup><mi></mi><mrow>{}</mrow></msup>"}
"""MathML around a parenthesis that follows sqrt or ^."""


def _elements(tokens: Sequence[re.Match[str]]) -> Iterator[str]:
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        followed = tokens[position]["op"] if position < len(tokens) else None
        around = _AROUND.get(token["name"] or token["op"] or "") if followed == "(" else None
        if around is not None:
            end = _closing(tokens, position)
            yield around.format("".join(_elements(tokens[position + 1 : end])))
            position = end + 1
        elif token["name"]:
            yield _symbol(token, followed == "(")
        elif token["number"]:
            number = f"<mn>{token['number']}</mn>"
            yield f"<msup>{number}{_script(token['power'])}</msup>" if token["power"] else number
        else:
            text = token["op"] or token["end"] or token["other"]
            fence = ' stretchy="false"' if text in "()[]|" else ""
            yield f"<mo{fence}>{escape(OPERATORS.get(text, text))}</mo>"


def _closing(tokens: Sequence[re.Match[str]], start: int) -> int:
    """Return the index of the token that closes the parenthesis at index `start`, or len(tokens) if none does."""
    depth = 0
    for position in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position]["op"] or "", 0)
        if depth == 0:
            return position
    return len(tokens)


def _symbol(token: re.Match[str], called: bool) -> str:
    name = token["name"]
    letter = GREEK.get(name, name) + (token["mark"] or "").replace("'", "′").replace("~", "̃")
    upright = name in FUNCTIONS or len(letter) > 2 or (name[0].isupper() and name not in ("C", "S"))
    element = f'<mi mathvariant="normal">{letter}</mi>' if upright else f"<mi>{letter}</mi>"
    if token["sub"] or token["sup"]:
        tag = "m" + ("sub" if token["sub"] else "") + ("sup" if token["sup"] else "")
        scripts = "".join(_script(text) for text in (token["sub"], token["sup"]) if text)
        element = f"<{tag}>{element}{scripts}</{tag}>"
    return element if called else f'{element}<mspace width="0.14em"/>'


def _script(text: str) -> str:
    """Return the MathML of a subscript or superscript such as `_{t-1}`, `_t`, `^T`."""
    inner = text[1:].strip("{}")
    elements = "".join(_elements(list(_TOKEN.finditer(inner)))).replace('<mspace width="0.14em"/>', "")
    return f"<mrow>{elements}</mrow>"
