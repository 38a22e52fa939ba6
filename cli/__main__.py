"""The entry point of `rnnzoo` and of `python -m rnnzoo_cli`."""

import sys


def main() -> None:
    """Run the command line and exit. Ctrl-C exits with 130 while modules are still being imported, too."""
    try:
        from .main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
