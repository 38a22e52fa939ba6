"""No command, but the entry point of `rnnzoo` and of `python -m rnnzoo_cli`."""

import os
import signal
import sys
from types import FrameType

SIGNALS = signal.SIGINT, signal.SIGTERM
IMPORTING = "<frozen importlib._bootstrap>"
"""The file name of the code that imports modules."""


def main() -> None:
    """Run the command line and exit. Ctrl-C and SIGTERM exit with 130, while modules are being imported, too.

    A process beside others exits without finalizing Python: a thread of Gloo that needs Python then would abort the process.
    """
    usual = signal.default_int_handler, signal.SIG_DFL  # a signal with another handler is ignored, as in the background
    for number in SIGNALS:
        if signal.getsignal(number) in usual:
            signal.signal(number, interrupt)
    try:
        from .main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as end:
        # torchrun and `accelerate launch` set WORLD_SIZE
        if os.environ.get("WORLD_SIZE", "1") != "1" and not isinstance(end.code, str):
            _exit_after_flushing(int(end.code or 0))
        raise
    finally:
        for number in SIGNALS:
            if signal.getsignal(number) is interrupt:
                signal.signal(number, _exit_at_signal)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt or, while a module is being imported, exit at once.

    C++ libraries abort, or ignore the interruption, if an exception interrupts their import.
    """
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            _exit_at_signal()
        frame = frame.f_back
    raise KeyboardInterrupt


def _exit_after_flushing(code: int) -> None:
    for stream in sys.stderr, sys.stdout:
        try:
            stream.flush()
        except (OSError, ValueError):  # ValueError: it is closed
            code = code or int(stream is sys.stdout)
    os._exit(code)


def _exit_at_signal(*_: object) -> None:
    files = sys.modules.get("zoo.utils.files")
    getattr(files, "remove_scratch", lambda: None)()
    os._exit(130)


if __name__ == "__main__":
    main()
