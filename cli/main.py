"""No command, but the table of all commands, and the function that turns exceptions into messages and exit codes.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted (Ctrl-C or SIGTERM).
"""

import codecs
import inspect
import io
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from zoo.errors import ZooError
from zoo.utils.version import __version__

from .output import emit, emit_error, say

VERBS = {
    "list": "catalogue:list_",
    "show": "catalogue:show",
    "pull": "hub:pull",
    "push": "publishing:push",
    "verify": "publishing:verify",
    "whoami": "hub:whoami",
    "eval": "training:evaluate",
    "predict": "predicting:predict",
    "generate": "generating:generate",
    "listen": "listening:listen",
    "convert": "converting:convert",
    "train": "training:train",
    "compare": "catalogue:compare",
    "leaderboard": "leaderboard:leaderboard",
    "export": "exporting:export",
    "inspect": "inspecting:inspect",
    "card": "publishing:card",
    "release": "publishing:release",
    "init": "publishing:init",
    "site": "site:site",
    "bench": "bench:bench",
    "doctor": "doctor:doctor",
    "cache": "hub:app",
}
"""`module:function` of each command in this package, or `module:app` for a group of commands."""
LIKENESS = {"±": "+-", "µ": "u", "×": "x", **dict(zip("░▒▓▁▂▃▄▅▆▇█", ".:*_.-:=+*#", strict=True))}
"""ASCII for characters of tables and pictures, where the encoding of stdout lacks them."""
FORMER_VERBS = {"login-status": "whoami", "adopt": "release"}
"""The new name of each renamed command. The old names work, but no help text shows them."""


class LazyVerbs(TyperGroup):
    """A group of commands that imports a command's module only when the command is called, so that the others start fast."""

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        self.commands: dict[str, Any] = dict.fromkeys(VERBS)  # Typer suggests these names for a misspelt command

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, or None if there is none."""
        name = FORMER_VERBS.get(cmd_name, cmd_name)
        if name not in VERBS:
            return None
        if self.commands[name] is None:
            module, _, attribute = VERBS[name].partition(":")
            verb = getattr(import_module(f".{module}", __package__), attribute)
            if not isinstance(verb, typer.Typer):
                function, verb = verb, typer.Typer(add_completion=False)
                verb.command(name, help=_paragraphs(function))(function)
            self.commands[name] = typer.main.get_command(verb)
            self.commands[name].name = name
        return self.commands[name]


app = typer.Typer(
    name="rnnzoo", cls=LazyVerbs, no_args_is_help=True, pretty_exceptions_enable=False,
    help="A zoo of recurrent networks, with pretrained weights and measured figures.",
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
_settings = {"debug": False}


def _paragraphs(function: Callable[..., object]) -> str:
    """Return a function's docstring with each paragraph on one line, which Typer wraps."""
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))


def _version(requested: bool) -> None:
    if requested:
        emit(None, False, f"rnnzoo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Read the options that stand before the command."""
    _settings["debug"] = debug


def main() -> None:
    """Run the command line and exit with the exit code of the command."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (stdout is None if it is closed)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("plain", _plain)
        sys.stdout.reconfigure(errors="plain")
    as_json = "--json" in sys.argv[1:]
    try:
        sys.exit(app(standalone_mode=not as_json))  # in its own mode the app prints errors of usage itself, as text
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # of a help text, whose reader has seen enough
            sys.exit(0)
        raise
    except Exception as error:
        text = error.format_message() if hasattr(error, "format_message") else str(error)  # of an error of usage
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        elif isinstance(error, OSError) and error.strerror:  # of standard output
            text = error.strerror
        if out_of_memory := _is_out_of_memory(error):
            first, _, _ = text.partition("\n")
            text = f"There is not enough memory. Smaller inputs or batches (--batch-size, --examples) need less. {first}".rstrip()
        expected = out_of_memory or isinstance(error, ZooError | OSError) or hasattr(error, "format_message")
        if as_json:
            _if_possible("stdout", emit_error, error, text)
        if _settings["debug"] or not expected:
            sys.excepthook = _print_traceback
            raise
        _if_possible("stderr", say, f"rnnzoo: {text}")
        sys.exit(getattr(error, "exit_code", 1))


def _if_possible(stream: str, write: Callable[..., None], *arguments: object) -> None:
    """Call `write`, which writes to sys.stdout or sys.stderr, but give the stream up if it fails: the exit code matters more."""
    try:
        write(*arguments)
        getattr(sys, stream).flush()
    except OSError:
        setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115 (Python flushes it at the end)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return (plain text, end) for characters that the terminal's encoding lacks; ? for those without a likeness."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(LIKENESS.get(each, "?") for each in error.object[error.start : error.end]), error.end


def _print_traceback(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    say("".join(traceback.format_exception(kind, error, at)).rstrip())


def _is_out_of_memory(error: Exception) -> bool:
    """Return True for MemoryError, torch.OutOfMemoryError, and the RuntimeError of torch's allocator on a CPU."""
    on_cpu = isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
    return on_cpu or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
