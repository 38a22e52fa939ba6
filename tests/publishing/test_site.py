"""`rnnzoo site`: whole pages from a small zoo, the same bytes twice, links that lead somewhere, nothing from elsewhere."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from small import clear_caches

from zoo import registry
from zoo.cells import CELLS, cell_class
from zoo.checkpoints import leaderboard
from zoo.diagnostics.base import Array, Axis, Result
from zoo.exports.formats import FORMATS
from zoo.publishing import comparison, release
from zoo.publishing.claims import depth as depth_claims
from zoo.publishing.pages import diagnostics
from zoo.publishing.site import (
    analyses,
    builder,
    charts,
    documents,
    facts,
    live,
    markup,
    mathml,
    model_page,
    pages,
    papers,
    templating,
)
from zoo.publishing.site import leaderboard as leaderboard_page
from zoo.utils import files, paths

Run = Callable[..., tuple[int, str, str]]
needs_compiler = pytest.mark.skipif(
    not all(map(shutil.which, FORMATS["wasm"].programs)), reason="needs clang, wasm-ld and node"
)
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Page(HTMLParser):
    """The tags of a page, its ids and addresses, and whether every tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def of(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every such tag."""
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def check_pages(folder: Path) -> int:
    """Check every page of a site; return how many there are."""
    pages = {path: Page(path.read_text()) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        assert page.open == [], path
        assert len(page.ids) == len(set(page.ids)), path
        assert page.of("html") == [{"lang": "en"}], path
        assert len(page.of("h1")) == 1, path
        assert len(page.of("main")) == 1, path
        for tag, attributes in page.tags:
            if tag == "svg":
                assert attributes.get("aria-label") or attributes.get("aria-hidden"), path
            if tag == "img":
                assert attributes.get("alt") is not None, path
            source = attributes.get("src", attributes["href"] if tag == "link" else "")
            assert not source.startswith(("http", "//")), (path, source)
            address = attributes.get("href", "") if tag == "a" else source
            if not address or address.startswith(("http", "data:", "mailto:")):
                continue
            target, _, fragment = address.partition("#")
            target = target.partition("?")[0]
            found = (path.parent / target).resolve() if target else path
            assert found.is_file(), (path, address)
            if fragment and found.suffix == ".html":
                assert fragment in pages[found].ids, (path, address)
    return len(pages)


@pytest.fixture
def zoo_of_one(small_zoo: Callable[..., Path], run: Run) -> Path:
    """A zoo whose model was trained, measured and released."""
    root = small_zoo()
    name = "rnn-1x8-mnist-rows"
    assert run("train", name, "--out", str(root / "run"), "--device", "cpu", "--epochs", "2")[0] == 0
    assert run("eval", str(root / "run"), "--record", "--device", "cpu")[0] == 0
    release.release(root / "run")
    registry.clear_caches()
    return root


def test_a_small_zoo_twice(zoo_of_one: Path, run: Run, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        code, out, err = run("site", "--out", str(folder), "--json")
        assert (code, json.loads(out)["folder"]) == (0, str(folder)), err
    first, second = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders)
    assert first == second
    assert check_pages(folders[0]) > len(CELLS)
    page = (folders[0] / "models" / "rnn-1x8-mnist-rows.html").read_text()
    pin = registry.find("rnn-1x8-mnist-rows").weights
    assert pin is not None
    assert all(file.sha256 in page for file in pin.files.values())
    assert (folders[0] / "files" / "rnn-1x8-mnist-rows" / "model.safetensors").read_bytes() == (
        zoo_of_one / "cards" / "rnn-1x8-mnist-rows" / "model.safetensors"
    ).read_bytes()
    damaged = zoo_of_one / "cards" / "rnn-1x8-mnist-rows" / "config.json"
    damaged.write_bytes(damaged.read_bytes() + b"\n")
    code, _, err = run("site", "--out", str(tmp_path / "third"), "--no-live")
    assert (code, "config.json is not the file that cards/lock.json pins" in err) == (1, True), err
    assert not (tmp_path / "third").exists()


@needs_compiler
@pytest.mark.slow
def test_the_whole_zoo_twice(tmp_path: Path) -> None:
    """With RNNZOO_SITE=DIR the first site is the one in DIR, brought up to date."""
    folders = [Path(os.environ.get("RNNZOO_SITE") or tmp_path / "first"), tmp_path / "second"]
    built = [builder.build(folder) for folder in folders]
    assert len(built[0].live) > 60
    first, second = ({p.relative_to(f) for p in f.rglob("*") if p.is_file()} for f in folders)
    assert first == second
    assert [
        path for path in sorted(first) if (folders[0] / path).read_bytes() != (folders[1] / path).read_bytes()
    ] == []
    assert check_pages(folders[1]) == built[1].pages


@needs_compiler
def test_scripts_of_models_are_kept_until_something_changes(zoo_of_one: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "site"
    script, page = out / "live" / "rnn-1x8-mnist-rows.js", out / "models" / "rnn-1x8-mnist-rows.html"
    assert run("site", "--out", str(out))[0] == 0
    first = script.read_bytes()
    data = json.loads(first[len(live.HEAD) : -3])
    assert data["wasm"][0]["states"] == [{"layer": 1, "name": "h", "offset": 0, "size": 8}]
    assert [gate for module in data["wasm"] for gate in module["gates"]] == []
    assert 'id="try"' in page.read_text()
    header = out / live.header_path("rnn-1x8-mnist-rows")
    assert hashlib.sha256(header.read_bytes()).hexdigest() in page.read_text()
    header.write_bytes(b"damaged")
    script.write_bytes(first.replace(data["key"].encode(), b"0" * len(data["key"])))
    (out / "stale.html").write_text("by hand")
    assert run("site", "--out", str(out))[0] == 0
    assert script.read_bytes() == first
    assert b"rnn_1x8_mnist_rows_step" in header.read_bytes()
    assert run("site", "--out", str(out), "--no-live")[0] == 0
    assert not script.exists()
    assert (out / "stale.html").exists()  # a person's file stays
    assert 'id="try"' not in page.read_text()


def test_a_new_zoo_has_none_of_our_papers(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, out = tmp_path / "zoo", tmp_path / "site"
    assert run("init", str(root))[0] == 0
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.syspath_prepend(str(root))
    clear_caches()
    code, _, err = run("site", "--out", str(out), "--no-live")
    assert code == 0, err
    assert check_pages(out) > len(CELLS)
    assert not (out / "papers").exists()
    assert not (out / "leaderboard.html").exists()
    assert "leaderboard.html" not in (out / "index.html").read_text()
    assert "after" not in lead(out / "cells" / "rnn.html")
    assert "paper" not in lead(out / "index.html")


def lead(path: Path) -> str:
    """The first paragraph of a page."""
    match = re.search(r'<p class="lead">(.*?)</p>', path.read_text())
    assert match
    return match[1]


def test_wrong_folders_and_missing_packages(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.txt").write_text("a person's file")
    code, _, err = run("site", "--out", str(tmp_path))
    assert (code, "no build of the site wrote" in err) == (2, True)
    code, _, err = run("site", "--out", str(tmp_path / "mine.txt"))
    assert (code, "is not a folder" in err) == (2, True)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: False)
        code, _, err = run("site", "--out", str(tmp_path / "new"))
        assert (code, f"{tmp_path}: Permission denied" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / builder.MANIFEST).write_text("{")
    code, _, err = run("site", "--out", str(broken))
    assert (code, "is damaged" in err) == (2, True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = run("site", "--out", str(tmp_path / "new"))
    assert (code, "pip install 'rnnzoo[site]'" in err) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_manifest_cannot_remove_files_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("kept")
    site = tmp_path / "site"
    site.mkdir()
    builder._write(site, {"a/b.txt": b"1"}, {"../outside.txt", "gone.txt"})
    assert outside.exists()
    builder._write(site, {}, {"a/b.txt"})
    assert not (site / "a").exists()


def test_a_broken_build_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, write = tmp_path / "site", files.atomic_write
    builder._write(site, {"gone.txt": b"1", "kept.txt": b"1"}, set())

    def fail(path: Path, content: bytes) -> None:
        if path.name == "new.txt":
            raise OSError("the disk is full")
        write(path, content)

    monkeypatch.setattr(files, "atomic_write", fail)
    with pytest.raises(OSError, match="full"):
        builder._write(site, {"kept.txt": b"2", "new.txt": b"1"}, builder._earlier(site))
    monkeypatch.setattr(files, "atomic_write", write)
    builder._write(site, {"kept.txt": b"2", "new.txt": b"1"}, builder._earlier(site))
    assert {path.name for path in site.iterdir()} == {"kept.txt", "new.txt", builder.MANIFEST}
    assert builder._earlier(site) == {"kept.txt", "new.txt"}


def test_the_key_of_a_script_changes_with_what_decides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.find("lstm-4x128-pmnist")
    monkeypatch.setattr(live, "_compiler", lambda: "clang 1")
    keys = [live._key(entry.name, entry)]
    model = entry.model.model_copy(update={"dropout": 0.5})
    keys.append(live._key(entry.name, replace(entry, model=model)))
    files = {**entry.weights.files, "vocabulary.txt": entry.weights.files["model.safetensors"]}
    keys.append(live._key(entry.name, replace(entry, weights=entry.weights.model_copy(update={"files": files}))))
    monkeypatch.setattr(live, "version", lambda package: "0")
    keys.append(live._key(entry.name, entry))
    for folder in ("cells", "networks", "exports"):
        monkeypatch.setattr(live, "SOURCES", [name for name in live.SOURCES if name != folder])
        live._sources.cache_clear()
        keys.append(live._key(entry.name, entry))
    live._sources.cache_clear()
    assert len(set(keys)) == len(keys)


def test_without_a_compiler_the_site_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    compiler = live.Compiler(tmp_path)
    assert compiler.compile(()) == {}
    assert (
        compiler.problem
        == "WebAssembly needs the program clang, which is not installed. Install it, and put it on the PATH."
    )


def test_equations_of_cells_become_mathematics() -> None:
    typeset = {name: mathml.equations(cell_class(name).__doc__ or "") for name in CELLS}
    assert sum(map(bool, typeset.values())) > 0.8 * len(CELLS)
    for name, found in typeset.items():
        for equation in found:
            assert equation.count("(") == equation.count(")"), (name, equation)
            assert "=" in equation
            page = Page(mathml.mathml(equation))
            assert page.open == []
    assert mathml.equations("h_t = a h_{t-1} + b, as it was. No = sign; h = 3.") == ["h_t = a h_{t-1} + b"]
    text = mathml.mathml("h_t = sqrt(1 - a^2) * x <= 1")
    assert "<msub><mi>h</mi>" in text
    assert "<msqrt>" in text
    assert "⊙" in text
    assert "&lt;=" in text  # in the label
    assert "≤" in text


def test_markdown_and_its_links() -> None:
    known = {"docs/b.md": "b.html"}
    page = markup.html("# A\n\n<!-- x -->\n[here](b.md#c), [there](../code.py), <b>", "docs", known.get)
    assert page == '<h1 id="a">A</h1>\n<p><a href="b.html#c">here</a>, there, &lt;b&gt;</p>\n'
    assert markup.sections("x\n\n## One\ny\n## Two\nz") == {"": "x\n\n", "One": "y\n", "Two": "z"}
    code = markup.html("```python\nx = '<'\n```")
    assert "&lt;" in code
    assert "<" + "'" not in code


def test_pictures_of_documents_have_a_size() -> None:
    assert documents.size(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x02\0\0\0\x09") == (258, 9)
    assert documents.size(b'<svg viewBox="0 0 460.8 12.4">') == (461, 12)


def test_charts_have_the_numbers_and_escape_them() -> None:
    drawn = charts.lines(
        [charts.Series("a<b", [(1, 0.5), (2, float("nan")), (3, 0.25)], "#000")], "x", "y", summary='"q"'
    )
    assert 'data-v="1,0.5 3,0.25"' in drawn
    assert "a&lt;b" in drawn
    assert 'aria-label="&#34;q&#34;"' in drawn
    values = np.array([[1e-8, 1.0], [10.0, 1e9]])
    heat = charts.heat(values, 1.0, summary="s")
    assert 'data-v="1e-08 1;10 1e+09"' in heat
    assert [charts.shade(v, 1.0) for v in (0.0, 1e-9, 1.0, 10.0, 1e9, float("nan"))] == [-12, -12, 0, 3, 12, 12]
    assert [charts.shade(v, 0.0) for v in (0.0, 1e-9, float("inf"))] == [0, 12, 12]
    assert [charts.label(v) for v in (0.02, 999.4, 1000, 2500, -9999, 1e4, 2e6)] == [
        "0.02", "999", "1,000", "2,500", "-9,999", "10k", "2M"
    ]  # fmt: skip
    assert charts.Scale(0, 100, 0, 1).ticks() == [0, 20, 40, 60, 80, 100]
    assert charts.Scale(100, 1e6, 0, 1, log=True)(1e4) == pytest.approx(0.5)
    assert Page(charts.lines([], "x", "y", summary="none")).open == []


def test_the_table_sorts_by_what_is_better() -> None:
    models = {model.name: model for model in facts.every_model()}
    for name, sign in (("gru-2x128-nottingham", -1), ("star-16x64-pmnist", 100)):
        (row, *_) = (row for row in models[name].rows if row.reported is not None)
        assert models[name].reported_quality == pytest.approx(sign * row.reported)
        assert models[name].quality == pytest.approx(sign * row.measured)
    assert models["gru-1x128-mnist-rows"].reported_quality is None


def test_the_leaderboard_has_every_row_at_its_place() -> None:
    site = templating.Site()
    leaderboard_page.add(site)
    text = site.files["leaderboard.html"].decode()
    ranked = leaderboard.ranked()
    (header, *lines) = re.findall("<tr>(.*?)</tr>", text)
    tasks = re.findall(r'title="[^"]+">([\w-]+)', header)
    assert tasks == list(ranked)
    found, ranks = {}, []
    for line in lines:
        (cell,) = re.findall(r">([\w-]+)</a>", line)
        ranks.append(re.findall(r'<td class="num"[^>]*>([\d.]+|-)</td>', line)[0])
        for task, words, figure in zip(
            tasks, *zip(*re.findall(r"<td([^>]*)>([^<]*)</td>", line)[1:], strict=True), strict=True
        ):
            found[task, cell] = words, figure
    known = {(task, row.cell): (place, row, len(placed)) for task, placed in ranked.items() for place, row in placed}
    for key, (words, figure) in found.items():
        if key not in known:
            assert (words, figure) == (' class="num"', "-")
            continue
        place, row, count = known[key]
        assert f'data-v="{place}"' in words
        assert f'title="{place} of {count}: {row.figure}"' in words
        assert ('class="num chance"' in words) == (row.at_chance or row.mean is None)
        assert figure == (row.measure.text(row.mean).split()[0] if row.mean is not None else "diverged")
    assert known.keys() <= found.keys()
    means = [float(rank) for rank in ranks if rank != "-"]
    assert means == sorted(means)
    assert ranks[len(means) :] == ["-"] * (len(ranks) - len(means))
    shown = {(task, name) for task, of_task in ranked.items() for name in {row.cell for _, row in of_task}}
    points = re.findall(r"<title>([\w-]+): ", text)
    assert 0 < len(points) < len(shown)
    assert set(points) <= {name for _, name in shown}


def test_a_cell_that_diverged_is_last_on_the_leaderboard() -> None:
    row = leaderboard.read()[0].model_copy(update={"values": (), "rate": None})
    assert leaderboard_page.entry(5, row, 5) == leaderboard_page.Entry(5, "diverged", "5 of 5: diverged", None)
    assert leaderboard_page.chart(row.task, [row, row]) is None


def test_presets_name_the_best_small_model() -> None:
    models = facts.every_model()
    assert [m.name for m in models[:1]] == ["star-16x64-pmnist"]
    for preset in facts.presets(models):
        group = [m for m in models if m.entry.weights and m.entry.model.task == preset.best.entry.model.task]
        small = [m for m in group if m.count.parameters < 100_000]
        assert max(m.quality or 0 for m in small) == preset.best.quality
        assert re.fullmatch(r"\?task=[\w-]+&size=100000&weights=1&sort=measured", preset.query)


def test_curves_keep_their_own_ticks() -> None:
    results = {
        part: Result({}, {"error": Array(np.arange(1.0, n + 1), (Axis("step", tuple(range(1, 1 + step * n, step))),))})
        for part, n, step in (("long", 3, 10), ("short", 2, 1))
    }
    (picture,) = analyses.pictures(results, "curves", None)
    assert 'data-v="1,1 11,2 21,3"' in picture.chart
    assert 'data-v="1,1 2,2"' in picture.chart
    assert "<td>2</td><td>-</td><td>2</td>" in picture.numbers
    assert "<td>21</td><td>3</td><td>-</td>" in picture.numbers


def test_long_curves_are_thinned_and_keep_their_peaks() -> None:
    values = np.zeros(5000)
    values[777] = 9.0
    array = Array(values, (Axis("step", tuple(range(5000))),))
    (picture,) = analyses.pictures({"a": Result({}, {"error": array})}, "curves", None)
    points = re.findall(r"(\d+),(\d+)", re.search(r'data-v="([^"]*)"', picture.chart)[1])  # type: ignore[index]
    assert len(points) <= charts.MOST_POINTS + 2
    assert ("777", "9") in points
    assert (points[0][0], points[-1][0]) == ("0", "4999")
    assert picture.numbers.count("<tr>") <= analyses.MOST_ROWS + 2
    assert "one row in 84" in picture.numbers


def test_the_claims_of_papers_as_the_documents_have_them() -> None:
    link = documents.read().link("../")
    notes = {claim.title: claim.note for claim in papers.claims("chen", [], link)}
    assert notes["Sections 4.2 and 4.4: the long-term dependency test"].endswith(
        '; <a href="../docs/measured.html">more of these</a>.'
    )
    claims = papers.claims("star", comparison.rows(paper="star"), link)
    lattices = [claim.note for claim in claims if "Fig. 2:" in claim.title]
    assert lattices
    assert all(re.search(r"Computed on [\d,]+ random networks\.$", note) for note in lattices)
    depth = [claim for claim in claims if claim.title.startswith("Depth: ")]
    assert [len(claim.verdicts) for claim in depth] == [len(depth_claims.CLAIMS)] * len(depth_claims.TASKS)


def test_the_studies_of_the_explorable_exist() -> None:
    assert all(diagnostics.study(name) for name in pages.LATTICE_STUDIES)


def test_a_page_says_why_its_network_does_not_run() -> None:
    reasons = {name: model_page._why_not_live(registry.find(name)) for name in registry.models()}
    assert reasons["bigru-1x200-toxic-parts"] == "it is bidirectional, so it needs the whole sequence"
    assert reasons["convstar-2x8-nmnist-small"] == "it is convolutional"
    assert reasons["mlp-3x8-pima.prelu"] == "it has no time steps"
    assert reasons["rnn-8x32-sits"] == "its input cannot be made by hand"
    assert reasons["lstm-4x128-pmnist"] is None
    assert all(reasons[name] is None for name in registry.models() if registry.find(name).weights is None)


def test_onnx_files_are_offered_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_page, "_onnx", lambda name: name.encode())
    site = templating.Site()
    names = ("rnn-8x32-sits", "convstar-2x8-nmnist-small")
    models = [model for model in facts.every_model() if model.name in names]
    for onnx in (False, True):
        for model in models:
            offered = [file for file in model_page._downloads(site, model, None, onnx) if file.name.endswith(".onnx")]
            assert [file.sha256 for file in offered] == [hashlib.sha256(model.name.encode()).hexdigest()] * onnx
            assert (f"files/{model.name}/{model.name}.onnx" in site.files) == onnx


def test_formats_are_those_that_can_hold_the_network() -> None:
    formats = {
        name: model_page._formats(registry.find(name)) for name in ("bigru-1x200-toxic-parts", "lstm-4x128-pmnist")
    }
    assert "wasm" in formats["lstm-4x128-pmnist"]
    assert "onnx" in formats["bigru-1x200-toxic-parts"]
    assert not {"c", "wasm"} & set(formats["bigru-1x200-toxic-parts"])


def test_the_difference_is_that_of_the_two_figures_beside_it() -> None:
    """Of several seeds, a model's page shows the figure of its weights; the mean is on the page of the paper."""
    shown = [model for model in facts.every_model() if model.compared]
    assert any(model.compared.runs > 1 for model in shown)
    for model in shown:
        reported = model.compared.reported
        assert model.entry.model.reported_text.split(",")[0] == model.compared.reported_text, model.name
        assert model.compared.difference == model.measured.value - reported, model.name
