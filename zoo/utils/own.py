"""Imports classes of a user's own, which registry.yaml names."""

import sys
import traceback
from typing import Any

from ..errors import ZooError, first_line
from . import import_object, paths


def import_own(path: str, kind: str, field: str, base: type[Any], error: type[ZooError]) -> Any:
    """Import and return the class at `path`, `module:Class`, whose module may be in the zoo's folder.

    That folder is appended to sys.path. kind, field: what the class is, such as "task family", and the key of registry.yaml
    that names it. Raises `error` if the class cannot be imported or is not a subclass of `base`.
    """
    if str(paths.ROOT) not in sys.path:
        sys.path.append(str(paths.ROOT))
    try:
        own = import_object(path, __package__)
    except (ImportError, AttributeError) as reason:
        module = path.partition(":")[0]
        its_own = not isinstance(reason, ModuleNotFoundError) or f"{module}.".startswith(f"{reason.name}.")
        fix = (
            f"Correct the `{field}` that names it, or install its module."
            if its_own
            else "Install what its module imports."
        )
        raise error(f"The {kind} {path} cannot be imported ({first_line(reason)}). {fix}") from reason
    except (Exception, SystemExit) as reason:  # a fault in the user's module
        raise error(f"The {kind} {path} cannot be imported ({located(reason)}). Correct that module.") from reason
    if not (isinstance(own, type) and issubclass(own, base)):
        raise error(f"The {kind} {path} is not a subclass of {base.__module__}.{base.__name__}, which it must be.")
    return own


def located(error: BaseException) -> str:
    """Return an error's type, the file and the line where it was raised, and its message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    return f"{type(error).__name__} in {file}, line {line}: {first_line(error)}"
