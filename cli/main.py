"""The table of contents of the command line, and the one place where exceptions become messages and exit codes.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted.
"""

import io
import os
import sys
import traceback
from types import TracebackType
from typing import Annotated

import typer

from zoo.errors import ZooError
from zoo.utils.version import __version__

from . import caching, catalogue, checkpoints, comparing, inspecting, machine, transfer, work
from .output import say

app = typer.Typer(
    name="rnnzoo", help="A zoo of recurrent networks, with weights and the numbers they were measured at.",
    no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
app.command("list")(catalogue.list_)
app.command("show")(catalogue.show)
app.command("pull")(transfer.pull)
app.command("push")(transfer.push)
app.command("verify")(transfer.verify)
app.command("login-status")(transfer.login_status)
app.command("eval")(work.evaluate)
app.command("train")(work.train)
app.command("compare")(comparing.compare)
app.command("inspect")(inspecting.inspect)
app.command("card")(checkpoints.card)
app.command("adopt")(checkpoints.adopt)
app.command("bench")(machine.bench)
app.command("doctor")(machine.doctor)
app.add_typer(caching.app, name="cache")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rnnzoo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command."""
    _settings["debug"] = debug


_settings = {"debug": False}


def _traceback(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    say("".join(traceback.format_exception(kind, error, at)).rstrip())


def main() -> None:
    """Run the command line and exit."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (whoever started this closed it)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal has every character; stderr does so by itself
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        text = str(error)
        if memory := _is_of_memory(error):
            first, _, _ = text.partition("\n")
            text = f"There is not enough memory; smaller batches (--batch-size, --examples) need less. {first}".rstrip()
        if _settings["debug"] or not (memory or isinstance(error, ZooError | OSError)):
            sys.excepthook = _traceback
            raise
        say(f"rnnzoo: {text}")
        sys.exit(error.exit_code if isinstance(error, ZooError) else 1)


def _is_of_memory(error: Exception) -> bool:
    """Whether memory ran out: Python's, a GPU's or, by the words of torch's allocator, a CPU's."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))
    )
