"""The house rules: small files, no import upwards or of torch for mere metadata, everything generated up to date."""

import ast
import inspect
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import zoo
from zoo.cells import CELLS, cell_class
from zoo.cells.base import Cell
from zoo.data.base import TaskData
from zoo.publishing import generated
from zoo.registry.schema import TASKS
from zoo.utils import import_object

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*ROOT.glob("zoo/**/*.py"), *ROOT.glob("cli/**/*.py")])
ROOMS = (
    "zoo.utils.version",
    "zoo.errors",
    "zoo.utils",
    "zoo.cells",
    "zoo.registry",
    "zoo.checkpoints",
    "zoo.networks",
    "zoo.exports",
    "zoo.data",
    "zoo.training",
    "zoo.diagnostics",
    "zoo.publishing",
    "zoo.publishing.claims",
    "zoo.publishing.pages",
    "zoo.publishing.generated",
    "zoo.publishing.studies",
    "zoo.publishing.site",
    "zoo",
    "cli",
)
"""Bottom to top: a module imports from its own package and from those before it, lazy and type-only imports included."""
METADATA = [
    "zoo",
    "zoo.errors",
    "zoo.registry",
    "zoo.registry.schema",
    "zoo.checkpoints.checkpoint",
    "zoo.checkpoints.configs",
    "zoo.checkpoints.hub.cache",
    "zoo.checkpoints.references",
    "zoo.checkpoints.results",
    "zoo.checkpoints.sources",
    "zoo.checkpoints.tensors",
    "zoo.diagnostics",
    "zoo.exports.formats",
    "zoo.publishing.cards",
    "zoo.publishing.comparison",
    "zoo.publishing.lattices",
    "zoo.publishing.pages.diagnostics",
    "zoo.publishing.pages.measured",
    "zoo.publishing.pages.models",
    "zoo.publishing.pages.papers",
    "zoo.publishing.pages.tasks",
    "zoo.publishing.plots",
    "zoo.training.jobs",
    "zoo.utils.files",
    "zoo.utils.paths",
]


def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in SOURCES}


def imports(module: str) -> set[str]:
    """The modules of this project that a module imports anywhere in its text."""
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES}
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            names = {f"{source}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else source for name in names}
    return found & MODULES.keys() - {module}


def room_of(module: str) -> str:
    """The innermost row that a module belongs to."""
    return max((room for room in ROOMS if f"{module}.".startswith(f"{room}.")), key=len)


@pytest.mark.parametrize("module", MODULES)
def test_no_import_goes_upwards(module: str) -> None:
    level = ROOMS.index(room_of(module))
    assert [name for name in imports(module) if ROOMS.index(room_of(name)) > level] == []


def test_no_circle_of_imports() -> None:
    try:
        TopologicalSorter({module: imports(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in (ROOT / "zoo").iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert {f"zoo.{name}" for name in folders} == {r for r in ROOMS if r.count(".") == 1} - {"zoo.errors"}
    assert {path.name for path in (ROOT / "zoo").glob("*.py")} == {"__init__.py", "errors.py"}
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("test_*.py"))}
    assert tested <= {*folders, "cli", "benchmarks"}


def test_public_names_are_typed_and_found() -> None:
    """Type checkers see the imports, Python the table: they agree."""
    tree = ast.parse(MODULES["zoo"].read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == zoo._PUBLIC
    assert set(zoo.__all__) == set(typed)
    assert all(getattr(zoo, name) is not None for name in zoo.__all__)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_small_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    assert ast.get_docstring(ast.parse(text)) or path.name == "__main__.py"


OTHER_SOURCES = [path for kind in ("cpp", "h", "js", "css", "html") for path in sorted(ROOT.glob(f"zoo/**/*.{kind}"))]


@pytest.mark.parametrize("path", OTHER_SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_of_other_languages_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


@pytest.mark.parametrize("path", sorted(ROOT.glob("zoo/cells/*.py")), ids=lambda path: path.name)
def test_cells_stay_tiny(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_every_cell_class_is_in_the_table() -> None:
    in_table = {cell_class(name) for name in CELLS}
    for path in ROOT.glob("zoo/cells/*.py"):
        module = import_module("zoo.cells" if path.stem == "__init__" else f"zoo.cells.{path.stem}")
        # what names no inputs is the base of cells
        found = {
            v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Cell) and hasattr(v, "inputs")
        }
        assert {cls for cls in found if cls.__module__ == module.__name__} <= in_table


def test_every_task_family_is_in_the_table() -> None:
    modules = [import_module(name) for name in MODULES if name.startswith("zoo.data.")]
    families = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, TaskData) and not inspect.isabstract(value)
    }
    assert families == {import_object(path, "zoo.data") for path in TASKS.values()}


def test_metadata_modules_do_not_import_torch() -> None:
    code = "import sys\nfor name in sys.argv[1:]:\n __import__(name)\n"
    code += " if {'torch', 'huggingface_hub'} & {*sys.modules}: sys.exit(f'{name} does')"
    assert subprocess.run([sys.executable, "-c", code, *METADATA]).returncode == 0


def test_the_library_never_imports_the_command_line_and_nobody_unpickles() -> None:
    for path in SOURCES:
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            )
        }
        assert not names & {"pickle", "click"}
        assert path.is_relative_to(ROOT / "cli") or not any(name.startswith("rnnzoo_cli") for name in names)
        assert "torch.load(" not in path.read_text()


def test_everything_generated_is_up_to_date() -> None:
    assert [str(path) for path in generated.stale()] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_names_of_torch_stand_in_one_place(path: Path) -> None:
    private = re.findall(r"\btorch(?:\.\w+)*\._[a-zA-Z]\w*|\._schema\b|\b_orig_mod\b", path.read_text())
    assert not private or path.name == "torch_internals.py", private


def test_only_one_place_prints() -> None:
    printing = {
        path.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing <= {"generated.py"}  # a program of its own, for make


def test_long_public_functions_and_classes_of_modules_have_docstrings() -> None:
    missing = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in SOURCES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and len(ast.unparse(node).splitlines()) > 6
    ]
    assert missing == []
