"""The shipped registry says what the papers print, and the loader refuses everything else with a file and a line."""

import json
import os
import random
import re
import subprocess
import sys
import time
from itertools import product

import numpy
import pytest
from pydantic import ValidationError

from zoo import list_models, registry, spec
from zoo.cells import CELLS
from zoo.errors import RegistryError, RequestError, UnknownNameError, ZooError
from zoo.registry import reader, yaml
from zoo.registry.metrics import METRICS
from zoo.registry.schema import Architecture, Config, Interface, Recipe, Reported
from zoo.utils import paths

# Table 3 of "Gating revisited": layers; vRNN, LSTM, LSTM with only the forget gate, RHN, STAR on MNIST, then on pMNIST
STAR_TABLE_3 = """
1   43.1 92.2 98.8 95.5 98.0   77.3 91.4 92.5 88.8 88.7
2   10.1 98.4 99.1 98.4 98.5   72.1 91.8 92.6 89.5 91.1
4   11.3 99.0 99.2  0   99.1   18.5 91.5 91.5  0   90.5
8   11.0 19.3 99.1  0   99.1    9.7 92.8 93.1  0   92.5
12  11.0 11.0  9.9  0   99.0    9.8 11.3 90.9  0   92.8
16  11.1 11.0 11.3  0   99.0    9.7 11.3 11.3  0   92.6
"""
# Table 1 of "Gating revisited", the rows of cells that the registry has: MNIST, pMNIST
STAR_TABLE_4 = """
1 81.5 82.4 83.1 72.5 81.8 66.3 68.2 68.3 68.0 68.1
2 83.5 85.3 85.4 59.5 85.1 68.5 70.1 70.0 69.5 70.6
4 84.9 85.5 86.1 70.3 86.3 68.8 70.0 70.0 70.3 71.9
8 85.2 47.2 85.3 67.8 86.5 33.8 33.8 69.4 70.4 71.0
12 84.6 47.2 84.8 69.0 86.3 33.7 33.8 34.9 70.1 70.7
16 84.2 42.5 47.5 68.6 86.1 33.7 33.8 34.8 50.6 38.7
"""  # cells of STAR_CELLS per time step, then per sequence
RIN_TABLE_3 = """
51.9 48.4 50.3 48.2 50
18.7 18.7 19 15.8 20
18.5 15.3 22.9 19.1 20
71.2 72.6 71.6 75.8 61
16.4 18.9 36.4 33.7 70
50.3 50.3 52.3 49 48
48.8 48.8 48.9 48 49
33.6 33.6 33.6 33.6 45
64.6 64.7 63.8 63.2 64
45.1 43.7 45.1 43.9 44
71.6 67.8 78.4 68.8 72
70.6 71.4 75.3 73 74
94.4 94.2 94.4 93.9 94
36.7 17.6 23.2 19.7 27
54.8 54.1 26.7 54.9 21
48.8 49 25.8 46.6 23
53.9 53.4 52 60.5 51
92.6 46.9 93 91.3 52
10.5 10.9 9.9 10 8
98 98.2 97.3 97.4 91
"""  # RIN, IRNN, LSTM, Jing et al. 2017, Weston et al. 2015; a row for each of the 20 tasks
STAR_TABLE_1 = """
rnn-1x128   24.3 44.0
lstm-4x128  99.0 91.5
irnn-1x100  97.0 82.0
urnn-1x512  95.1 91.4
urnn-full-1x512  96.9 94.1
rnn-soft-orthogonal-1x128  94.1 91.4
antisymmetric-gated-1x128  98.8 93.1
star-4x128  99.1 90.5
star-16x64  99.0 92.4
"""
# Table 1 of "Overcoming the vanishing gradient problem in plain recurrent networks": RIN, IRNN, LSTM, twice
RIN_TABLE_1 = """
1x100  91.64 83.55 24.10   78.89 62.11 28.49
1x200  94.60 92.86 47.13   85.03 73.73 30.63
2x100  93.69 92.15 39.50   83.37 76.31 41.31
2x200  94.82 94.78 22.27   85.31 83.78 55.44
3x100  94.15 94.03 54.98   84.15 78.78 38.61
3x200  95.19 95.05 61.20   83.41 84.24 53.29
"""
RIN_DT = {"rin-dt-1x100-smnist": 95.41, "rin-dt-1x100-pmnist": 86.23}  # the last row of the same table

STAR_CELLS = ("rnn", "lstm", "lstm-f", "rhn", "star")
RIN_CELLS = ("rin", "irnn", "lstm")
TASKS = ("smnist", "pmnist")

SMALL = """\
papers:
  p: {title: Title, authors: Author, year: 1990}
CITED
datasets:
  d:
    title: Data
    license: cc0-1.0
    hub: owner/data
    hub_files: {train: train.parquet}
    validation: 5
    citation: Citation
tasks:
  t:
    title: Task
    family: mnist
    dataset: d
    layout: pixels
    input: [1]
    steps: 784
    outputs: 10
    readout: last
    pipeline_tag: other
recipes:
  r:
    paper: p
    optimizer: {name: adam, lr: 1e-3}
    precision: no
    batch_size: 10
    epochs: 1
models:
  star-1x2-t:
    cell: star
    layers: 1
    units: 2
    task: t
    recipe: r
    reported: [{paper: p, table: One, percent: 50}]
grids:
  g:
    cell: [rnn, lstm]
    layers: [1]
    units: [3]
    task: [t]
    recipe: r
    reported:
      - paper: p
        table: Two
        percent: {t: {1x3: [60.5, null]}}
"""
CITED = [
    f"  {paper}: {{title: Origin, authors: Author, year: 1990}}" for paper in sorted({c.paper for c in CELLS.values()})
]
SMALL = SMALL.replace("CITED", "\n".join(CITED))

PIN = {
    "repo": "owner/name",
    "revision": "b" * 40,
    "files": {"model.safetensors": {"sha256": "c" * 64, "size": 10}, "config.json": {"sha256": "c" * 64, "size": 11}},
}
UNITS = "    units: 2\n"


def edited(old, new, text=SMALL):
    """`text` with its one `old` replaced."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def nested(text):
    """The text with its recipes, models and grids, which stand at the left here, put into a study."""
    lines, inside, begun = [], False, False
    for line in text.split("\n"):
        if re.match(r"\S", line):
            inside = re.match(r"(&m )?(recipes|models|grids|recepies):", line) is not None
        if inside and not begun:
            lines += ["studies:", "  s:", "    title: Study"]
            begun = True
        lines.append(f"    {line}" if inside and line else line)
    return "\n".join(lines)


def read(folder, text):
    path = folder / "registry.yaml"
    path.write_bytes(text if isinstance(text, bytes) else nested(text).encode())
    return reader.read(path)


def refusal(folder, text):
    """The message of the RegistryError that refuses `text`; it must point at the line that has HERE in it, if any."""
    with pytest.raises(RegistryError) as caught:
        read(folder, text)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'registry.yaml'}:")
    lines = nested(text).splitlines() if isinstance(text, str) else []
    for number in (n for n, line in enumerate(lines, 1) if "HERE" in line):
        assert message.startswith(f"{folder / 'registry.yaml'}:{number}:"), message
    assert all(line.startswith(f"{folder / 'registry.yaml'}:") for line in message.splitlines())
    return message


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder in place of the one that registry.yaml and cards/ are in."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    registry.clear_caches()  # conftest.py clears them again afterwards
    return tmp_path


def reported(paper, table):
    """Model name to figure, for one printed table."""
    return {
        name: figure.percent
        for name, model in registry.models().items()
        for figure in model.reported
        if (figure.paper, figure.table) == (paper, table)
    }


def printed(table, cells, row):
    """Model name to figure, from rows of a label and one figure for each task and cell."""
    figures = {}
    for label, *numbers in map(str.split, table.strip().splitlines()):
        assert len(numbers) == len(TASKS) * len(cells)
        columns = [f"{cell}-{row.format(label)}-{task}" for task in TASKS for cell in cells]
        figures |= zip(columns, map(float, numbers), strict=True)
    return figures


# the shipped registry


def test_every_entry_of_the_papers_tables_has_a_model():
    star = {f"{c}-{n}x128-{t}" for c in STAR_CELLS for n in (1, 2, 4, 8, 12, 16) for t in TASKS}
    rin = {f"{c}-{n}x{u}-{t}" for c in RIN_CELLS for n in (1, 2, 3) for u in (100, 200) for t in TASKS}
    others = {f"{prefix}-{task}" for prefix in ("star-16x64", "rin-dt-1x100") for task in TASKS}
    assert len(star) == 60
    assert len(rin) == 36
    assert (star | rin | others) - set(registry.models()) == set()


def test_reported_figures_are_the_printed_ones():
    assert reported("star", "Table 3") == printed(STAR_TABLE_3, STAR_CELLS, "{}x128")
    assert reported("rin", "Table 1") == printed(RIN_TABLE_1, RIN_CELLS, "{}") | RIN_DT
    rows = [line.split() for line in STAR_TABLE_1.strip().splitlines()]
    assert reported("star", "Table 1") == {
        f"{prefix}-{task}": float(figure) for prefix, *pair in rows for task, figure in zip(TASKS, pair, strict=True)
    }


def test_table_4_and_the_thesis_are_the_printed_ones():
    rows = (line.split() for line in STAR_TABLE_4.strip().splitlines())
    assert reported("star", "Table 4") == {
        f"{cell}-{layers}x128-{task}": float(figure)
        for layers, *figures in rows
        for (task, cell), figure in zip(product(("tum-steps", "tum"), STAR_CELLS), figures, strict=True)
    }
    assert reported("chen", "section 4.2.1") == {"rnn-1x50-toxic-short": 98.12, "rnn-1x50-toxic-long": 96.15}
    assert {f.split for m in registry.models().values() for f in m.reported if f.paper == "chen"} == {"train"}


def test_the_answers_to_questions_are_the_printed_ones():
    columns = [tuple(map(float, line.split())) for line in RIN_TABLE_3.strip().splitlines()]
    assert len(columns) == 20
    for column, (table, cell) in enumerate(
        [("Table 3", "rin"), ("Table 3", "irnn"), ("Table 3", "lstm"), ("Table 3 (figures of Jing et al. 2017, size not given)", "goru"),
         ("Table 3 (figures of Weston et al. 2015, size not given)", "lstm")]
    ):  # fmt: skip
        found = {k: v for k, v in reported("rin", table).items() if k.startswith(f"{cell}-1x100")}
        assert found == {f"{cell}-1x100-babi-{n:02}": row[column] for n, row in enumerate(columns, 1)}
        assert round(sum(found.values()) / 20, 1) == (52.5, 48.9, 51.0, 52.3, 49.2)[column]  # it prints 52.6 for 52.55


def test_no_table_reports_two_figures_of_one_model():
    for name, model in registry.models().items():
        sources = [(figure.paper, figure.table) for figure in model.reported]
        assert len(set(sources)) == len(sources), name


def test_names_are_derived_from_the_entries():
    for study in registry.load_registry().studies.values():
        assert [model.name for model in study.models.values()] == list(study.models)
    for name, model in registry.models().items():
        parts = (("bi", model.bidirectional), ("block", model.block), ("conv", model.kernel), (model.cell, True))
        start = "".join(word for word, there in parts if there)
        end = f".{model.tag}" if model.tag else ""
        assert name == f"{start}-{model.layers}x{model.units}-{model.task}{end}"
        assert name == registry.find(name).config.name


def test_every_model_builds_without_memory():
    from zoo.networks.builder import build

    for name in registry.models():
        network = build(name, device="meta")
        assert network.config.name == name
        assert {p.device.type for p in network.parameters()} == {"meta"}


def test_sections_are_sorted():
    known = registry.load_registry()
    sections = {name: getattr(known, name) for name in ("papers", "datasets", "tasks")}
    for name, study in known.studies.items():
        sections |= {f"{name}.{part}": getattr(study, part) for part in ("recipes", "models", "grids")}
    for name, section in sections.items():
        assert list(section) == sorted(section), name


# finding and listing


def test_find_collects_what_an_entry_refers_to():
    entry = spec("star-16x64-pmnist")
    assert (entry.model.cell, entry.model.layers, entry.model.units) == ("star", 16, 64)
    assert (entry.task.steps, entry.task.input, entry.task.outputs) == (784, (1,), 10)
    assert entry.dataset.hub == "ylecun/mnist"
    assert entry.recipe.based_on == "star-mnist"
    assert entry.documented == registry.load_registry().recipes["star-mnist"]
    assert set(entry.papers) == {"star"}
    assert spec("lstm-phased-1x128-pmnist").documented is None


@pytest.mark.parametrize("name", ["star-16x64-pmist", "STAR-16x64-pmnist", "star-16x46-pmnist", "star16x64pmnist"])
def test_find_suggests_near_matches(name):
    with pytest.raises(UnknownNameError) as caught:
        spec(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "Did you mean" in message
    assert "star-16x64-pmnist" in message
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)
    assert len([n for n in registry.models() if re.search(rf"{re.escape(n)}( or |\?)", message)]) <= 3


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "a" * 300, "../../etc/passwd", "a\0b"])
def test_find_suggests_nothing_for_what_is_like_nothing(name):
    with pytest.raises(UnknownNameError, match="No model is called") as caught:
        spec(name)
    assert "Did you mean" not in str(caught.value)
    assert "rnnzoo list" in str(caught.value)


def test_list_models():
    everything = list_models()
    assert everything == sorted(registry.models())
    assert list_models("star-16x64-[ps]mnist") == ["star-16x64-pmnist", "star-16x64-smnist"]
    assert list_models("rin-[12]x100-smnist") == ["rin-1x100-smnist", "rin-2x100-smnist"]
    assert list_models("STAR-*") == list_models([]) == []
    assert list_models(["star-16x64-*", "rin-2x100-*"], exclude="*-pmnist") == ["rin-2x100-smnist", "star-16x64-smnist"]
    assert list_models("star-16x64-*", exclude=("*-p*", "*-s*")) == []
    assert list_models(task="pmnist") == [name for name in everything if name.partition(".")[0].endswith("-pmnist")]
    assert list_models(cell="rin-dt") == [name for name in everything if name.startswith("rin-dt-")]
    assert "lstm-f-1x128-smnist" not in list_models(cell="lstm", task="smnist")
    assert "lstm-1x128-smnist" in list_models(cell="lstm", task="smnist")
    assert list_models("*-pmnist", task="smnist") == []


@pytest.mark.parametrize(("key", "near"), [("task", "pmnist"), ("cell", "star")])
def test_list_models_of_an_unknown_task_or_cell(key, near):
    with pytest.raises(UnknownNameError, match=rf"No {key} is called 'x{near}'\. Did you mean .*{near}"):
        list_models(**{key: f"x{near}"})


def test_list_models_with_and_without_weights(home):
    (home / "registry.yaml").write_text(nested(SMALL))
    (home / "cards").mkdir()
    (home / "cards" / "lock.json").write_text(json.dumps({"weights": {"star-1x2-t": PIN}}))
    assert list_models() == ["lstm-1x3-t", "rnn-1x3-t", "star-1x2-t"]
    assert list_models(pretrained=True) == ["star-1x2-t"]
    assert list_models(pretrained=False) == ["lstm-1x3-t", "rnn-1x3-t"]


def test_a_broken_registry_is_an_error_of_every_function(home):
    (home / "registry.yaml").write_text("models: 3\n")
    for use in (list_models, lambda: spec("star-1x2-t"), registry.models):
        with pytest.raises(RegistryError):
            use()


def test_listing_and_showing_import_nothing_heavy():
    heavy = ("torch", "numpy", "huggingface_hub", "accelerate", "pyarrow", "PIL")
    code = (
        "import sys, zoo; assert zoo.list_models(); zoo.spec('star-16x64-pmnist').config;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_zoo_of_ones_own(tmp_path):
    (tmp_path / "registry.yaml").write_text(nested(SMALL))
    command = [sys.executable, "-c", "import zoo; print(*zoo.list_models())"]
    own = os.environ | {"RNNZOO_ROOT": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    assert done.stdout.split() == ["lstm-1x3-t", "rnn-1x3-t", "star-1x2-t"]


# the strict loader


def test_a_small_registry_loads(tmp_path):
    small = read(tmp_path, SMALL)
    assert small.recipes["r"].optimizer.lr == 0.001
    assert small.recipes["r"].precision == "no"
    assert [(m.name, [f.percent for f in m.reported]) for m in small.studies["s"].grids["g"].models] == [
        ("rnn-1x3-t", [60.5]),
        ("lstm-1x3-t", []),
    ]
    assert read(tmp_path, nested(SMALL).replace("\n", "\r\n").encode()) == small
    assert read(tmp_path, b"\xef\xbb\xbf" + nested(SMALL).encode()) == small


YAML_FAULTS = {
    "key twice": (edited(UNITS, UNITS + "    units: 3  # HERE\n"), "duplicate key"),
    "model twice": (edited("grids:", "  star-1x2-t: {}  # HERE\ngrids:"), "duplicate key"),
    "section twice": (SMALL + "papers: {}  # HERE\n", "duplicate key"),
    "anchor": (edited(UNITS, "    units: &two 2  # HERE\n"), "anchors and aliases"),
    "anchor on a key": (edited("models:", "&m models:  # HERE"), "anchors and aliases"),
    "alias": (
        edited(UNITS, "    units: *one\n").replace("    layers: 1\n", "    layers: &one 1  # HERE\n"),
        "anchors and aliases",
    ),
    "undefined alias": (edited(UNITS, "    units: *one  # HERE\n"), "anchors and aliases"),
    "alias bomb": (
        "a: &a [x, x, x, x, x, x, x, x, x]  # HERE\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "anchors and aliases",
    ),
    "self-reference": ("&a [*a]  # HERE\n", "anchors and aliases"),
    "merge key": (edited("    cell: star\n", "    <<: {cell: star}  # HERE\n"), "merge|<<"),
    "overridden merge key": (edited(UNITS, UNITS + "    <<: {units: 3}  # HERE\n"), "merge|<<"),
    "tab": (edited(UNITS, "\tunits: 2  # HERE\n"), "tab|cannot start any token"),
    "root is a list": ("- a  # HERE\n- b\n", "table of keys"),
    "root is a word": ("hello  # HERE\n", "table of keys"),
    "root is null": ("null  # HERE\n", "table of keys"),
    "two documents": (SMALL + "---  # HERE\na: 1\n", "second document"),
    "python object": (edited(UNITS, "    units: !!python/object/apply:os.system [ls]  # HERE\n"), "tag"),
    "python name": (edited(UNITS, "    units: !!python/name:os.system  # HERE\n"), "tag"),
    "own tag": (edited(UNITS, "    units: !two 2  # HERE\n"), "tag"),
    "unclosed bracket": (edited("[1]\n    steps: 784", "[1\n    steps: 784  # HERE"), "expected"),
    "mapping as key": (edited(UNITS, UNITS + "    ? {a: b}  # HERE\n    : 3\n"), "a key must be a plain word"),
    "too deep": (edited(UNITS, f"    units: {'[' * 30}{']' * 30}  # HERE\n"), "nested too deeply"),
    "control character": (edited(UNITS, "    units: 2\a  # HERE\n"), "character"),
}


@pytest.mark.parametrize(("text", "words"), YAML_FAULTS.values(), ids=YAML_FAULTS)
def test_faults_of_the_yaml(tmp_path, text, words):
    assert re.search(words, refusal(tmp_path, text))


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "\n\n"])
def test_an_empty_file(tmp_path, text):
    assert re.search("empty|dictionary", refusal(tmp_path, text))


def test_nesting_that_would_overflow_the_stack(tmp_path):
    assert re.search("nested too deeply|maximum nesting depth", refusal(tmp_path, "papers: " + "[" * 3000))


def test_a_file_over_a_megabyte(tmp_path):
    text = nested(SMALL).encode()
    read(tmp_path, text + b"#" * (1_000_000 - len(text)))
    assert "1,000,000" in refusal(tmp_path, text + b"#" * (1_000_001 - len(text)))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_that_is_not_utf8(tmp_path, encoding):
    assert "UTF-8" in refusal(tmp_path, edited("title: Data", "title: D\xe4ta").encode(encoding))


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(RegistryError, match=r"nowhere\.yaml: this file does not exist\. `rnnzoo init`"):
        reader.read(tmp_path / "nowhere.yaml")
    with pytest.raises(RegistryError, match="cannot be read"):
        reader.read(tmp_path)


UNKNOWN_KEYS = {
    "recepies": ("recipes", SMALL + "recepies: {}  # HERE\n"),
    "titel": ("title", edited("  p: {", "  p: {\n    titel: x,  # HERE\n    ")),
    "licence": ("license", edited("    hub: owner", "    licence: x  # HERE\n    hub: owner")),
    "output": ("outputs", edited("    outputs: 10\n", "    outputs: 10\n    output: 10  # HERE\n")),
    "epoch": ("epochs", edited("    epochs: 1\n", "    epochs: 1\n    epoch: 1  # HERE\n")),
    "beta": ("betas", edited("name: adam,", "name: adam,\n      beta: 1,  # HERE\n     ")),
    "warm-up": (
        "warmup",
        edited("    batch_size: 10\n", "    batch_size: 10\n    schedule:\n      warm-up: 3  # HERE\n"),
    ),
    "unit": ("units", edited(UNITS, UNITS + "    unit: 2  # HERE\n")),
    "gate-bias": ("gate_bias", edited(UNITS, UNITS + "    init:\n      input: zero\n      gate-bias: one  # HERE\n")),
    "tabel": ("table", edited("percent: 50}", "percent: 50,\n      tabel: x  # HERE\n    }")),
    "layer": ("layers", edited("    layers: [1]\n", "    layers: [1]\n    layer: [1]  # HERE\n")),
    "percents": ("percent", edited("        table: Two\n", "        table: Two\n        percents: {}  # HERE\n")),
}


@pytest.mark.parametrize("key", UNKNOWN_KEYS)
def test_an_unknown_key_and_the_nearest_valid_one(tmp_path, key):
    near, text = UNKNOWN_KEYS[key]
    assert f"unknown key {key!r}; the nearest valid one is {near!r}" in refusal(tmp_path, text)


def test_an_option_that_is_no_word(tmp_path):
    assert "key 1 is not a word" in refusal(tmp_path, edited(UNITS, UNITS + "    options: {1: 2}  # HERE\n"))


def test_an_unknown_key_that_is_no_word(tmp_path):
    assert "key 5 is not a word" in refusal(tmp_path, edited(UNITS, UNITS + "    5: 2  # HERE\n"))


VALUES = {
    "    units: 2": "two | '2' | true | 2.0 | 2.5 | [2] | null | no | 0 | -1 | 1000000000 | .nan | .inf | 1e30",
    "    layers: 1": "0 | -1 | 1025 | 1.0 | yes | '1'",
    "    validation: 5": "0 | -1 | 1.0 | true",
    "    steps: 784": "0 | 1000001 | .inf",
    "    outputs: 10": "0 | 1048577 | false",
    "    input: [1]": "1 | [0] | [-1] | [1.5] | ['1'] | [true] | one",
    "    readout: last": "first | 1 | null",
    "    batch_size: 10": "0 | -1 | 1e1 | true | 100000",
    "    epochs: 1": "0 | 1000000",
    "    precision: no": "off | false | 32",
    "    title: Task": "3 | '' | null | [Task]",
    "    task: t": "T | a b | ../t | 3",
}
VALUE_CASES = [(line, value) for line, values in VALUES.items() for value in values.split(" | ")]


@pytest.mark.parametrize(("line", "value"), VALUE_CASES, ids=[f"{a.split(':')[0].strip()}={b}" for a, b in VALUE_CASES])
def test_a_value_of_the_wrong_type_or_out_of_range(tmp_path, line, value):
    key = line.split(":")[0]
    message = refusal(tmp_path, edited(f"{line}\n", f"{key}: {value}  # HERE\n"))
    assert re.search(rf"\.{key.strip()}(\.\d)?: ", message)


@pytest.mark.parametrize("extra", [
    "max_grad_norm: 0", "max_grad_norm: -1.0", "max_grad_norm: .nan", "max_grad_norm: .inf", "max_grad_norm: yes", "weight_average: 0", "weight_average: 1.0", "weight_average: .nan", "seed: -1", "seed: 2147483648", "tbptt_steps: 0",
    "optimizer: {name: adam, lr: 0}", "optimizer: {name: adam, lr: .inf}", "optimizer: {name: adam, lr: .nan}",
    "optimizer: {name: adam, lr: no}", "optimizer: {name: adam, lr: '1e-3'}", "optimizer: {name: adam, lr: true}",
    "optimizer: {name: adam, lr: -1e-3}", "optimizer: {name: adamax, lr: 1e-3}", "optimizer: {lr: 1e-3}",
    "optimizer: {name: adam, lr: 1e-3, betas: [0.9]}", "optimizer: {name: adam, lr: 1e-3, betas: [0.9, 1.0]}",
    "optimizer: {name: adam, lr: 1e-3, betas: [0.9, .nan]}", "schedule: {name: linear}", "schedule: {warmup: -1}",
    "schedule: {final_factor: 1.5}", "schedule: {final_factor: .nan}", "schedule: {power: .inf}", "schedule: cosine",
    "schedule: {epochs: 0}", "stages: [{start_epoch: 1}]", "stages: [{start_epoch: -1, lr: 0.1}]", "stages: [{start_epoch: 1, lr: 0.1, shift: 0}]", "stages: {}",
    "shift: 1.5", "affine: 10", "affine: {degrees: -1}", "affine: {degrees: 181}", "affine: {degrees: .nan}", "affine: {scale: 1}",
    "affine: {shear: 90}", "affine: {shear: 0}", "affine: {}", "affine: {turn: 5}",
])  # fmt: skip
def test_a_recipe_with_an_odd_value(tmp_path, extra):
    base = edited("    optimizer: {name: adam, lr: 1e-3}\n", "") if extra.startswith("optimizer") else SMALL
    assert "recipes.r." in refusal(
        tmp_path, base.replace("    batch_size: 10\n", f"    batch_size: 10\n    {extra}  # HERE\n")
    )


@pytest.mark.parametrize("extra", [
    "dropout: 1.0", "dropout: -0.1", "dropout: .nan", "zoneout: 1", "recurrent_dropout: .inf", "layer_norm: 1",
    "layer_norm: no", "standardize: yes", "bidirectional: both", "bidirectional: true", "kernel: 0", "kernel: 33",
    "init: {input: orthogonl}", "init: {gate_bias: ones}", "init: {recurrent: normal-x}", "init: orthogonal",
    "init: {input: uniform--1}", "tag: No", "tag: ''", "options: 3", "notes: ''",
])  # fmt: skip
def test_a_model_with_an_odd_value(tmp_path, extra):
    assert "models.star-1x2-t." in refusal(tmp_path, edited(UNITS, f"{UNITS}    {extra}  # HERE\n"))


# these look at several keys together, so they point at the entry
@pytest.mark.parametrize(("extra", "words"), [
    ("kernel: 4", "odd kernels"), ("options: {shfit: 1}", "no option 'shfit'; its options: shift"),
    ("options: {shift: one}", "finite number"), ("options: {shift: .nan}", "finite number"),
    ("options: {shift: .inf}", "finite number"), ("options: {shift: true}", "finite number"),
    ("options: {shift: [1]}", "finite number"), (f"options: {{shift: 1{'0' * 400}}}", "finite number"),
])  # fmt: skip
def test_a_model_that_does_not_fit_together(tmp_path, extra, words):
    text = edited(UNITS, f"{UNITS}    {extra}\n").replace("star-1x2-t:", "star-1x2-t:  # HERE")
    assert words in refusal(tmp_path, text)


def test_an_option_with_a_word_that_is_not_allowed(tmp_path):
    text = edited("star-1x2-t:", "gru-1x2-t:  # HERE").replace("cell: star", "cell: gru\n    options: {reset: never}")
    assert "'reset' is 'never'; it can be 'before' or 'after'" in refusal(tmp_path, text)


def test_an_unknown_cell(tmp_path):
    text = edited("star-1x2-t:", "star-1x2-t:  # HERE").replace("cell: star", "cell: sttar")
    message = refusal(tmp_path, text)
    assert "star-1x2-t: No cell is called 'sttar'. Did you mean star" in message
    assert message.endswith("zoo.cells.CELLS.")


def test_a_pattern_without_its_number(tmp_path):
    fine = read(tmp_path, edited(UNITS, UNITS + "    init: {input: uniform-0.1, recurrent: normal-1e-3}\n"))
    assert fine.studies["s"].models["star-1x2-t"].init.recurrent == "normal-1e-3"
    assert "uniform-" in refusal(tmp_path, edited(UNITS, UNITS + "    init: {input: uniform-}  # HERE\n"))


def test_a_missing_key_points_at_its_entry(tmp_path):
    message = refusal(tmp_path, edited(UNITS, "").replace("star-1x2-t:", "star-1x2-t:  # HERE"))
    assert "units: is missing" in message


@pytest.mark.parametrize("key", ["star-1x3-t", "star-1x2-u", "star-1x2-t.x", "bistar-1x2-t"])
def test_a_name_that_is_not_the_derived_one(tmp_path, key):
    text = edited("  star-1x2-t:", f"  {key}:  # HERE")
    assert "the name derived from this entry is 'star-1x2-t'" in refusal(tmp_path, text)


@pytest.mark.parametrize("key", ["STAR-1x2-t", "star_1x2_t", "-s", "a/b", "..", "'a b'", "a" * 81, "1", "null", "[a]"])
def test_a_key_that_cannot_be_a_name(tmp_path, key):
    message = refusal(tmp_path, edited("  star-1x2-t:", f"  {key}:"))
    assert re.search(r"models\.|a key must be a plain word|is not a word", message)
    assert "the name derived" not in message


def test_a_name_declared_by_a_grid_and_an_entry(tmp_path):
    text = edited("[rnn, lstm]", "[rnn, star]").replace("units: [3]", "units: [2]").replace("1x3:", "1x2:")
    assert "'star-1x2-t' is declared twice" in refusal(tmp_path, text.replace("  g:", "  g:  # HERE"))


def test_a_name_declared_twice_by_one_grid_and_by_two(tmp_path):
    text = edited("[rnn, lstm]", "[rnn, rnn]").replace("  g:", "  g:  # HERE")
    assert "'rnn-1x3-t' is declared twice" in refusal(tmp_path, text)
    second = "  h:  # HERE\n    cell: [rnn]\n    layers: [1]\n    units: [3]\n    task: [t]\n    recipe: r\n"
    assert "'rnn-1x3-t' is declared twice" in refusal(tmp_path, SMALL + second)


def with_literature(row: str) -> str:
    """SMALL with one table of the literature: paper, tasks, figures."""
    return edited("recipes:\n  r:", f"literature:\n  - table: Three\n{row}recipes:\n  r:")


LITERATURE = "    paper: p\n    tasks: [t]\n    percent: {S4: [98.7]}\n"


def test_a_table_of_the_literature(tmp_path):
    (table,) = read(tmp_path, with_literature(LITERATURE)).literature
    assert (table.paper, table.table, table.tasks, table.percent) == ("p", "Three", ("t",), {"S4": (98.7,)})


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ("{S4: [98.7, 99.6]}", "Three: 'S4' has 2 figures for 1 tasks"),
        ("{S4: []}", "Three: 'S4' has 0 figures for 1 tasks"),
        ("{S4: [100.5]}", "100"),
        ("{S4: 98.7}", "S4"),
        (
            "{S4: [98.7]}\n    nats: {S4: [1.5]}",
            "Three: the figures are either accuracies, 'percent', or likelihoods, 'nats'",
        ),
        ("{}", "Three: the figures are either accuracies, 'percent', or likelihoods, 'nats'"),
    ],
)
def test_figures_of_the_literature_that_do_not_fit(tmp_path, figures, words):
    text = with_literature(LITERATURE.replace("{S4: [98.7]}", figures))
    with pytest.raises(RegistryError, match=re.escape(words)):
        read(tmp_path, text)


def test_figures_of_the_literature_fit_the_metric_of_the_task(tmp_path):
    text = with_literature(LITERATURE.replace("percent: {S4: [98.7]}", "nats: {S4: [5.5]}"))
    assert "'t' is measured by accuracy, which is not in 'nats'" in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("1x3:", "01x3:", "01x3"),
        ("    task: [t]\n    recipe: r\n", "    task: [t]\n    variants: {a: {}}\n    recipe: r\n", "without a tag"),
        ("    task: [t]\n    recipe: r\n", "    task: [t]\n    bidirectional: [sum]\n    recipe: r\n", "without a tag"),
    ],
)
def test_reported_figures_that_no_model_would_get(tmp_path, old, new, words):
    with pytest.raises(RegistryError, match=words):
        read(tmp_path, edited(old, new))


UNKNOWN_REFERENCES = {
    "task": edited("    task: t\n", "    task: tt  # HERE\n").replace("star-1x2-t:", "star-1x2-tt:"),
    "recipe": edited("    recipe: r\n    reported: [", "    recipe: rr  # HERE\n    reported: ["),
    "paper": edited("    paper: p\n    optim", "    paper: pp  # HERE\n    optim"),
    "dataset": edited("    dataset: d\n", "    dataset: dd  # HERE\n"),
    "task family": edited("    family: mnist\n", "    family: mmnist  # HERE\n"),
    "reported paper": edited("    reported: [{paper: p,", "    reported: [{paper: pp,  # HERE\n     "),
    "recipe to follow": edited(
        "    batch_size: 10\n", "    batch_size: 10\n    based_on: rr  # HERE\n    deviation: Because\n"
    ),
    "task of a grid": edited("    task: [t]\n", "    task: [tt]  # HERE\n").replace("{t: {1x3", "{tt: {1x3"),
    "paper of the literature": with_literature(LITERATURE.replace("paper: p", "paper: pp  # HERE")),
    "task of the literature": with_literature(LITERATURE.replace("[t]", "[tt]  # HERE")),
    "recipe of a grid": edited("    recipe: r\n    reported:\n", "    recipe: rr  # HERE\n    reported:\n"),
}


@pytest.mark.parametrize("what", UNKNOWN_REFERENCES)
def test_a_reference_to_what_is_not_there(tmp_path, what):
    kind = (
        what.removesuffix(" of a grid")
        .removesuffix(" of the literature")
        .removesuffix(" to follow")
        .removeprefix("reported ")
    )
    assert re.search(rf"No {kind} is called '(tt|rr|pp|dd|mmnist)'", refusal(tmp_path, UNKNOWN_REFERENCES[what]))


def test_papers_of_cells_need_no_copy(tmp_path):
    text = re.sub("  (star|elman): .*\n", "", SMALL)
    assert len(text.splitlines()) == len(SMALL.splitlines()) - 2
    papers = read(tmp_path, text).papers
    assert papers["star"].citation == "Turkoglu et al. 2019"
    assert papers["gru"].title == "Origin"  # a paper of the file itself counts


def test_every_cell_has_its_paper(tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "sources.yaml").write_text("papers: {}\n")
    monkeypatch.setattr(paths, "PACKAGED_ROOT", tmp_path / "package")
    text = re.sub("  star: .*\n", "", SMALL)
    assert re.search("No paper .*is called 'star'", refusal(tmp_path, text))


def test_all_faults_are_listed_with_what_each_field_is(tmp_path):
    text = edited("    license: cc0-1.0\n", "").replace("    epochs: 1\n", "    epochs: 0\n    learning_rate: 1\n")
    with pytest.raises(RegistryError) as caught:
        read(tmp_path, text.replace("steps: 784", "steps: many"))
    lines = str(caught.value).splitlines()
    numbers = [int(line.split(":")[1]) for line in lines]
    assert numbers == sorted(numbers)
    assert [line.split(": ", 1)[1] for line in lines] == [
        "datasets.d.license: is missing (SPDX identifier, or the Hub's `unknown` or `other`).",
        "tasks.t.steps: must be an integer, not 'many' (Length of the longest sequence in time steps).",
        "studies.s.recipes.r.epochs: must be at least 1, not 0 (passes over the training set).",
        "studies.s.recipes.r.learning_rate: unknown key 'learning_rate'; the valid ones are "
        f"{', '.join(Recipe.model_fields)}.",
    ]


def test_all_references_to_nothing_are_listed(tmp_path):
    text = edited("    recipe: r\n    reported: [{paper: p,", "    recipe: rr\n    reported: [{paper: zzz,")
    with pytest.raises(RegistryError) as caught:
        read(tmp_path, text.replace("    dataset: d\n", "    dataset: dd\n"))
    assert [line.split(": ", 2)[2] for line in str(caught.value).splitlines()] == [
        "No dataset is called 'dd'. Did you mean d?",
        "No recipe is called 'rr'. Did you mean r?",
        "No paper is called 'zzz'. There are: " + ", ".join(sorted({"p", *(c.paper for c in CELLS.values())})) + ".",
    ]


def test_a_long_list_of_faults_ends(tmp_path):
    with pytest.raises(RegistryError) as caught:
        read(tmp_path, edited("papers:\n", "papers:\n" + "".join(f"  p{i}: {{}}\n" for i in range(30))))
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1].endswith("registry.yaml: and 70 more faults.")


def test_near_matches_of_a_reference(tmp_path):
    assert "Did you mean mnist" in refusal(tmp_path, UNKNOWN_REFERENCES["task family"])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"optimizer": {"name": "adam", "lr": 0.1, "momentum": 0.9}}, "adam has no 'momentum'"),
        ({"optimizer": {"name": "adamw", "lr": 0.1, "alpha": 0.5}}, "adamw has no 'alpha'"),
        ({"optimizer": {"name": "sgd", "lr": 0.1, "betas": [0.5, 0.9]}}, "sgd has no 'betas'"),
        ({"optimizer": {"name": "ridge", "penalty": 1.0, "lr": 3.0}}, "ridge has no 'lr'"),
        ({"optimizer": {"name": "ridge", "penalty": 1.0, "weight_decay": 0.5}}, "ridge has no 'weight_decay'"),
        ({"schedule": {"final_factor": 0.5}}, "constant has no 'final_factor'"),
        ({"schedule": {"name": "cosine", "power": 2.0}}, "cosine has no 'power'"),
    ],
)
def test_settings_of_another_method_are_refused(settings, problem):
    recipe = {"optimizer": {"name": "adam", "lr": 0.1}, "batch_size": 1, "epochs": 1}
    with pytest.raises(ValidationError, match=problem):
        Recipe.model_validate({**recipe, **settings})


def test_a_schedule_lasts_as_long_as_what_it_is_for(tmp_path):
    many = SMALL.replace("    batch_size: 10\n", "    batch_size: 10\n    EXTRA\n").replace(
        "epochs: 1\n", "epochs: 9\n"
    )
    for extra in (
        "schedule: {name: cosine, epochs: 8}",
        "stages: [{start_epoch: 3, lr: 0.1, schedule: {name: cosine, epochs: 5}}]",
    ):
        assert "is shorter than its stage" in refusal(tmp_path, many.replace("EXTRA", extra))
    short = {
        "optimizer": {"name": "adam", "lr": 0.1},
        "batch_size": 1,
        "epochs": 3,
        "schedule": {"name": "cosine", "epochs": 3},
    }
    assert (
        len(Recipe.model_validate({**short, "stages": [{"start_epoch": 5, "lr": 0.1}]}).timeline) == 1
    )  # it ends before


@pytest.mark.parametrize(("extra", "words"), [
    ("classes: [a]", "1 class names do not fit 10 outputs"),
    ("classes: [a, b, c, d, e, f, g, h, i, a]", "two classes are called 'a'; give each another name"),
    ("guess: 0.5", "only a task with target 'value', 'token' or 'binary' can have 'guess'"),
    ("target: value\n    classes: [a, b, c, d, e, f, g, h, i, j]", "only a task with target 'class' or 'binary' can have 'classes'"),
])  # fmt: skip
def test_classes_that_are_not_the_outputs(tmp_path, extra, words):
    text = edited("    outputs: 10\n", f"    outputs: 10\n    {extra}\n").replace("  t:\n", "  t:  # HERE\n")
    assert words in refusal(tmp_path, text)


@pytest.mark.parametrize("begins", [(2, 1), (2, 2), (0,)])
def test_stages_out_of_order(tmp_path, begins):
    then = ", ".join(f"{{start_epoch: {after}, lr: 0.1}}" for after in begins)
    text = edited("    batch_size: 10\n", f"    batch_size: 10\n    stages: [{then}]\n").replace(
        "  r:\n", "  r:  # HERE\n"
    )
    assert "each must begin after the one before it" in refusal(tmp_path, text)


def test_a_recipe_that_follows_itself(tmp_path):
    text = edited("    batch_size: 10\n", "    batch_size: 10\n    based_on: r  # HERE\n    deviation: Because\n")
    assert "a recipe cannot be based on itself" in refusal(tmp_path, text)


@pytest.mark.parametrize("given", ["based_on: r", "deviation: Because"])
def test_a_departure_without_its_reason_or_its_origin(tmp_path, given):
    text = edited("    batch_size: 10\n", f"    batch_size: 10\n    {given}\n").replace("  r:\n", "  r:  # HERE\n")
    assert "'based_on' and 'deviation' go together" in refusal(tmp_path, text)


GRID = """\
task_grids:
  g:
    shared: {title: Task, family: mnist, dataset: d, layout: pixels, steps: 784, readout: last, pipeline_tag: other}
    tasks:
      t-1: {input: [1], outputs: 10}
      t-2: {input: [2], outputs: 5}
"""


def test_a_grid_of_tasks(tmp_path):
    tasks = read(tmp_path, edited("recipes:", f"{GRID}recipes:")).all_tasks
    assert {name: (task.input, task.outputs, task.steps) for name, task in tasks.items()} == {
        "t": ((1,), 10, 784), "t-1": ((1,), 10, 784), "t-2": ((2,), 5, 784),
    }  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), [
    ("{input: [2], outputs: 5}", "{input: [2], outputs: 0}  # HERE", "tasks.t-2.outputs: .*at least 1"),
    ("{input: [2], outputs: 5}", "{input: [2], output: 5}  # HERE", "unknown key 'output'; .* is 'outputs'"),
    ("    shared: {title: Task,", "    shared: {titel: Task,  # HERE\n     ", "unknown key 'titel'; .* is 'title'"),
    ("      t-1:", "      t:  # HERE\n       ", "'t' is declared twice"),
    ("dataset: d,", "dataset: dd,  # HERE\n     ", "No dataset is called 'dd'"),
])  # fmt: skip
def test_a_grid_of_tasks_with_a_fault(tmp_path, old, new, words):
    grid = edited(old, new, GRID).replace("HERE", "" if "declared twice" in words or "No dataset" in words else "HERE")
    assert re.search(words, refusal(tmp_path, edited("recipes:", f"{grid}recipes:")))


def test_digests_do_not_stand_in_the_registry(tmp_path):
    text = edited("    citation: Citation\n", "    citation: Citation\n    sha256: {a: b}  # HERE\n")
    assert "digests belong in cards/lock.json" in refusal(tmp_path, text)


def test_a_name_of_two_studies_is_declared_twice(tmp_path):
    study = (
        "\n  z:\n    title: Other\n    recipes:\n      r: {optimizer: {name: adam, lr: 1}, batch_size: 1, epochs: 1}\n"
    )
    (tmp_path / "registry.yaml").write_text(nested(SMALL).rstrip() + study)
    with pytest.raises(RegistryError, match=r"studies\.z\.recipes\.r: 'r' is declared twice"):
        reader.read(tmp_path / "registry.yaml")


@pytest.mark.parametrize(("old", "new", "words"), [
    ("1x3: [60.5, null]", "1x3: [60.5]", "'1x3' does not fit"),
    ("1x3: [60.5, null]", "1x4: [60.5, null]", "'1x4' does not fit"),
    ("1x3: [60.5, null]", "2x3: [60.5, null]", "'2x3' does not fit"),
    ("1x3: [60.5, null]", "x3: [60.5, null]", "x3"),
    ("{t: {1x3", "{u: {1x3", "'u' is not among the tasks of the grid"),
    ("[60.5, null]", "[sixty, null]", "number"),
    ("[60.5, null]", "[true, null]", "number"),
    ("[60.5, null]", "[150, null]", "at most 100"),
    ("[60.5, null]", "[-1, null]", "at least 0"),
    ("[60.5, null]", "[.nan, null]", "finite number|less than"),
    ("cell: [rnn, lstm]", "cell: [rnn, lsstm]", "lsstm"),
    ("layers: [1]\n    units: [3]", "layers: [1, 2000]\n    units: [3]", "2000|1024"),
    ("layers: [1]\n    units: [3]", "layers: [1]\n    units: [3, 0]", "at least 1"),
    ("cell: [rnn, lstm]", "cell: rnn", "tuple|list"),
    ("cell: [rnn, lstm]", "cell: [rnn, slstm]\n    options: {heads: 1}", "'rnn' has no option 'heads'"),
    ("cell: [rnn, lstm]", "cell: [lstm, mlp]\n    init: {gate_bias: one}", "'mlp' has no recurrent projections and no gates"),
])  # fmt: skip
def test_a_grid_that_does_not_fit_together(tmp_path, old, new, words):
    message = refusal(tmp_path, edited(old, new))
    assert re.search(r"registry\.yaml:\d+:\d+: studies\.s\.grids\.g", message)
    assert re.search(words, message.partition("grids.g")[2])


# every way in which YAML can turn a scalar into something else
@pytest.mark.parametrize("scalar", [
    "!!int two", "!!float two", "!!bool maybe", "!!null x", "!!timestamp x", "!!binary x", "!!set {a}", "!!omap [a: 1]",
    "2001-99-99", "2001-01-01", "2001-01-01T25:00:00Z", "0x_", "0b2", "0o9", "9" * 5000, "1" + "0" * 4000, "=", "<<",
])  # fmt: skip
def test_a_scalar_that_is_not_what_it_says(tmp_path, scalar):
    refusal(tmp_path, edited(UNITS, f"    units: {scalar}  # HERE\n"))


@pytest.mark.parametrize("escape", [r"\U00110000", r"\UFFFFFFFF", r"\xZZ"])
def test_an_escape_that_is_no_character(tmp_path, escape):
    refusal(tmp_path, edited("title: Task", f'title: "{escape}"'))


def test_damage_anywhere_is_read_or_refused(tmp_path):
    source = random.Random(0)
    alphabet = b"\0\t\n\r !\"#%&'*+,-.0123456789:<=>?@[]_`{|}~abcx\x80\xc3\xff"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(200):
        damaged = bytearray(nested(SMALL).encode())
        for _ in range(source.randint(1, 3)):
            at = source.randrange(len(damaged))
            damaged[at : at + source.randint(0, 2)] = bytes(source.choices(alphabet, k=source.randint(0, 3)))
        try:
            read(tmp_path, bytes(damaged))
            outcomes["read"] += 1
        except RegistryError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 5


def test_its_error_is_one_of_the_zoos():
    assert issubclass(RegistryError, ZooError)
    assert RegistryError.exit_code == 2


def test_names_that_other_libraries_give_to_a_field():
    for key, field in {"hidden_size": "units", "num_layers": "layers"}.items():
        values = {"cell": "lstm", "layers": 2, "units": 4}
        del values[field]
        with pytest.raises(ValidationError) as caught:
            Architecture(**values, **{key: 3})
        assert str(caught.value).splitlines() == [
            "1 validation error for Architecture", key,
            f"  unknown key {key!r}; the nearest valid one is {field!r} [type=fault]",
        ]  # fmt: skip


def test_a_config_is_named_after_its_architecture():
    architecture, interface = Architecture(cell="star", layers=4, units=64), {"input": (6,), "steps": 9, "outputs": 3}
    config = Config(architecture=architecture, interface=Interface(**interface, readout="last"))
    assert (config.name, config.task) == ("star-4x64", "none")
    stored = config.model_dump(mode="json")
    for missing in ("name", "task"):
        with pytest.raises(ValidationError, match=f"{missing} must be given"):
            Config.model_validate({key: value for key, value in stored.items() if key != missing})


@pytest.mark.parametrize(
    "text",
    ["papers: [" + "1," * 440_000 + "]", "papers: {" + "".join(f"p{i}: {{}}, " for i in range(6_000)) + "}"],
    ids=["values", "faults"],
)
def test_a_huge_document_is_refused_at_once(tmp_path, text):
    begin = time.monotonic()
    path = tmp_path / "registry.yaml"
    path.write_text(text)
    with pytest.raises(RegistryError, match=r"more than 20,000 values|is missing"):
        reader.read(path)
    assert time.monotonic() - begin < 5  # 0.5 s where nothing else runs


def test_a_huge_grid_is_refused(tmp_path):
    numbers = f"[{', '.join(map(str, range(1, 33)))}]"
    text = edited(
        "layers: [1]\n    units: [3]\n    task: [t]", f"layers: {numbers}\n    units: {numbers}\n    task: [t, t, t]"
    )
    assert "the grid has 6,144 models; at most 5,000 are allowed" in refusal(tmp_path, text)


def test_a_figure_is_an_accuracy_or_a_likelihood():
    accuracy = Reported(paper="p", table="T", percent=98.5)
    likelihood = Reported(paper="p", table="T", nats=8.45)
    assert [(figure.value, figure.text) for figure in (accuracy, likelihood)] == [
        (0.985, "98.5 %"),
        (8.45, "8.45 nats"),
    ]
    for both_or_none in ({}, {"percent": 98.5, "nats": 8.45}):
        with pytest.raises(ValidationError, match="give one of the two"):
            Reported(paper="p", table="T", **both_or_none)


def test_sections_may_stand_in_a_second_file(tmp_path):
    text = nested(SMALL)
    begin, end = (re.search(rf"^{section}:", text, re.M).start() for section in ("datasets", "tasks"))
    (tmp_path / "sources.yaml").write_text(text[begin:end])
    assert read(tmp_path, text[:begin] + text[end:]) == read_alone(tmp_path / "alone", text)
    (tmp_path / "sources.yaml").write_text(text[begin:end].replace("    license:", "    licence:", 1))
    message = str(refused(tmp_path, text[:begin] + text[end:]))
    assert re.match(rf"{re.escape(str(tmp_path / 'sources.yaml'))}:\d+:5: datasets\.\w+\.licence: ", message), message


def test_a_section_stands_in_one_file(tmp_path):
    (tmp_path / "sources.yaml").write_text("# papers\npapers: {}\n")
    place = f"{tmp_path / 'sources.yaml'}:2:1: papers: "
    assert refused(tmp_path, SMALL) == place + "also in registry.yaml; keep one of them."


@pytest.mark.parametrize("text", ["[]", "papers"])
def test_a_second_file_without_sections(tmp_path, text):
    (tmp_path / "sources.yaml").write_text(text)
    assert "sources.yaml:1:1: the file should be a table of keys" in refused(tmp_path, SMALL)


def read_alone(folder, text):
    folder.mkdir()
    return read(folder, text)


def refused(folder, text):
    with pytest.raises(RegistryError) as caught:
        read(folder, text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("target", "figure", "fits"),
    [
        ("class", "percent: 50", True), ("class", "nats: 2.5", False), ("token", "nats: 2.5", True),
        ("token", "percent: 50", False), ("value", "percent: 50", False), ("value", "nats: 2.5", False),
    ],
)  # fmt: skip
def test_a_reported_figure_fits_the_metric_of_its_task(tmp_path, target, figure, fits):
    text = edited(
        "    pipeline_tag: other\n", f"    pipeline_tag: other\n    target: {target}\n", SMALL.partition("grids:")[0]
    )
    text = text.replace("percent: 50", figure)
    if fits:
        assert read(tmp_path, text).models
    else:
        assert f"which is not in '{figure.partition(':')[0]}'" in refusal(tmp_path, text)


def test_tasks_are_listed_by_pattern_and_weights():
    every = registry.list_tasks()
    assert every == sorted(registry.load_registry().all_tasks)
    trained, untrained = (registry.list_tasks(pretrained=wanted) for wanted in (True, False))
    assert sorted([*trained, *untrained]) == every
    assert "pmnist" in trained
    assert "tum" in untrained
    assert registry.list_tasks("js*") == ["jsb"]


def test_cells_are_listed_by_pattern_property_and_weights():
    every = registry.list_cells()
    assert every == sorted(every)
    assert registry.list_cells("lstm-f*") == ["lstm-f"]
    trained, untrained = (registry.list_cells(pretrained=wanted) for wanted in (True, False))
    assert "star" in trained
    assert "clockwork" in untrained
    assert sorted([*trained, *untrained]) == every
    assert registry.list_cells("lstm*", pretrained=True) == [name for name in trained if name.startswith("lstm")]
    assert registry.list_cells("nothing") == []
    for names in (registry.list_cells, registry.list_tasks, registry.list_models):
        with pytest.raises(RequestError, match="pretrained must be True, False or None; got 'yes'"):
            names(pretrained="yes")
        assert names(pretrained=numpy.True_) == names(pretrained=True)


def test_a_figure_measured_again_may_differ_by_as_much():
    assert {name: measure.tolerance(2.0) for name, measure in METRICS.items()} == pytest.approx(
        {"accuracy": 1e-3, "cross_entropy": 2e-3, "mse": 0.02, "nll": 2e-3, "nrmse": 0.02}
    )


def test_a_list_of_as_many_faults_as_are_shown_has_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_FAULTS", 90)
    with pytest.raises(RegistryError) as caught:
        read(tmp_path, edited("papers:\n", "papers:\n" + "".join(f"  p{i}: {{}}\n" for i in range(30))))
    lines = str(caught.value).splitlines()
    assert len(lines) == 90
    assert "more faults" not in lines[-1]


def test_faults_of_the_first_file_come_first(tmp_path):
    text = nested(SMALL).replace("steps: 784", "steps: many", 1)
    begin, end = (re.search(rf"^{section}:", text, re.M).start() for section in ("datasets", "tasks"))
    (tmp_path / "sources.yaml").write_text(text[begin:end].replace("    license:", "    licence:", 1))
    files = [line.split(":")[0] for line in str(refused(tmp_path, text[:begin] + text[end:])).splitlines()]
    names = [file.rpartition("/")[2] for file in files]
    assert names == sorted(names)
    assert set(names) == {"registry.yaml", "sources.yaml"}


def test_nesting_as_deep_as_allowed():
    deep = yaml.MAX_DEPTH + 1  # the outermost is at depth 0
    assert len(yaml.parse("[" * deep + "]" * deep).marks) == deep
    with pytest.raises(yaml.YamlError, match="nested too deeply"):
        yaml.parse("[" * (deep + 1) + "]" * (deep + 1))


@pytest.mark.parametrize(("text", "value"), [("0x1F", 31), ("0o17", 15), ("017", 17), ("-3", -3)])
def test_integers_of_yaml_1_2(text, value):
    assert yaml.parse(text).content == value


def test_a_cell_of_ones_own_may_begin_like_a_prefix(monkeypatch):
    for cell in ("birnn", "blockrnn", "convgate", "bistable"):
        monkeypatch.setitem(CELLS, cell, CELLS["rnn"])
        found = Architecture.from_name(f"{cell}-2x8")
        assert (found.cell, found.bidirectional, found.block, found.kernel) == (cell, None, None, None)
