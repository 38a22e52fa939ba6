"""The table of verbs, and the one place where exceptions become messages and exit codes.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted.
"""

import io
import os
import sys
import traceback
from importlib import import_module
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from zoo.errors import ZooError
from zoo.utils.version import __version__

from .output import emit, say

VERBS = {
    "list": "catalogue:list_",
    "show": "catalogue:show",
    "pull": "transfer:pull",
    "push": "transfer:push",
    "verify": "transfer:verify",
    "whoami": "transfer:whoami",
    "eval": "work:evaluate",
    "train": "work:train",
    "compare": "comparing:compare",
    "inspect": "inspecting:inspect",
    "card": "publishing:card",
    "release": "publishing:release",
    "bench": "machine:bench",
    "doctor": "doctor:doctor",
    "cache": "caching:app",
}
"""Verb to `module:function` of this package, or to the Typer application of a group of verbs."""
FORMER_VERBS = {"login-status": "whoami", "adopt": "release"}
"""Former verbs, which work but are not shown, to what they are called now."""


class LazyVerbs(TyperGroup):
    """Imports a verb's module when the verb is chosen, so that listing models does not wait for what trains them."""

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        self.commands: dict[str, Any] = dict.fromkeys(VERBS)  # names only, which is all that Typer's suggestions read

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a verb; None if there is no such verb."""
        name = FORMER_VERBS.get(cmd_name, cmd_name)
        if name not in VERBS:
            return None
        if self.commands[name] is None:
            module, _, attribute = VERBS[name].partition(":")
            verb = getattr(import_module(f".{module}", __package__), attribute)
            if not isinstance(verb, typer.Typer):
                function, verb = verb, typer.Typer(add_completion=False)
                verb.command(name)(function)
            self.commands[name] = typer.main.get_command(verb)
            self.commands[name].name = name
        return self.commands[name]


app = typer.Typer(
    name="rnnzoo", cls=LazyVerbs, no_args_is_help=True, pretty_exceptions_enable=False,
    help="A zoo of recurrent networks, with pretrained weights and measured figures.",
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
_settings = {"debug": False}


def _version(requested: bool) -> None:
    if requested:
        emit(None, False, f"rnnzoo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before the verb."""
    _settings["debug"] = debug


def main() -> None:
    """Run the command line and exit."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (None if the parent process closed it)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack characters; stderr replaces them by default
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        text = str(error)
        if out_of_memory := _is_out_of_memory(error):
            first, _, _ = text.partition("\n")
            text = f"There is not enough memory; smaller batches (--batch-size, --examples) need less. {first}".rstrip()
        if _settings["debug"] or not (out_of_memory or isinstance(error, ZooError | OSError)):
            sys.excepthook = _print_traceback
            raise
        say(f"rnnzoo: {text}")
        sys.exit(error.exit_code if isinstance(error, ZooError) else 1)


def _print_traceback(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print a traceback without tokens in it."""
    say("".join(traceback.format_exception(kind, error, at)).rstrip())


def _is_out_of_memory(error: Exception) -> bool:
    """Return True for the errors of Python, of a GPU, and of torch's allocator on a CPU, which only its text identifies."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))
    )
