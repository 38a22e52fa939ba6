"""The site in headless Chromium: no error, no request elsewhere, filters, models whose logits are Python's, and accessibility.

`make test-site` installs what these tests need and runs them; `make test` leaves them out. With RNNZOO_LIVE=all every model that
runs in a page is compared, and with RNNZOO_SITE=DIR the site in DIR is brought up to date, and each of its pages opened.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from browsing import CHROMIUM, FORECAST, HEADLINE, LIVE, MUSIC, SPEECH, Visit

from zoo import examples, generate, load, registry
from zoo.checkpoints import leaderboard
from zoo.networks.frozen import frozen
from zoo.networks.quantize import quantized
from zoo.publishing.site import live, pages

pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.filterwarnings("ignore"),
]
PAGES = (
    "index.html?task=pmnist", f"models/{HEADLINE}.html", "models/gru-1x200-spooky.html", "models/rin-1x100-babi-20.html",
    "models/rin-1x100-adding-200.html", "models/mlp-3x8-pima.prelu.html", "models/bigru-1x200-toxic-parts.html", "models/gru-2x256-shakespeare.html",
    f"models/{SPEECH}.html", f"models/{MUSIC}.html", f"models/{FORECAST}.html",
    "models/urnn-1x512-pmnist.html", "cells/index.html", "cells/lstm.html", "cells/rwkv7.html", "papers/index.html",
    "papers/star.html", "papers/chen.html", "papers/lru.html", "why.html", "speed.html", "literature.html", "leaderboard.html", "docs/index.html",
    "docs/readme.html", "docs/export.html",
)  # fmt: skip
PAGE_BYTES, RUN_BYTES = 300_000, 1_200_000
"""Of a page before its model runs, and after; the page of a paper may have twice as many."""


def inputs_of(name: str, count: int = 20) -> tuple[list[Any], torch.Tensor]:
    """Return inputs as a page takes them, and Python's logits of them."""
    entry = registry.find(name)
    network = load(name, device="cpu")
    size = sum(4 * parameter.numel() for parameter in network.parameters())
    exact = (frozen if size <= live.FLOAT_BYTES else quantized)(network).eval()
    generator = random.Random(0)
    if entry.task.vocabulary:
        words = [*network.tokenizer.words[2:], "zzyzx", "Don't", "1816,", "cafe\u0301s"]
        texts = [" ".join(generator.choices(words, k=generator.randint(3, 30))) for _ in range(count)]
        if entry.task.form == "characters":
            texts = ["".join(generator.choices(words[: len(network.tokenizer.words) - 2], k=40)) for _ in range(count)]
            return list(texts), exact(network.tokenizer(texts)[0])[:, -1]
        if entry.task.form == "question":
            questions = [" ".join(generator.choices(words, k=4)) for _ in texts]
            x, lengths = network.tokenizer.ask(texts, questions)
            return list(zip(texts, questions, strict=True)), exact(x, lengths)
        x, lengths = network.tokenizer(texts)
        return list(texts), exact(x, lengths)
    if entry.task.family in ("fsdd", "music"):  # their data is not part of the package
        noise = torch.rand(count, 30, *entry.task.input, generator=torch.Generator().manual_seed(0))
        x = 16 * noise - 13 if entry.task.family == "fsdd" else (noise < 0.05).float()
        logits = exact(x)
        return x.tolist(), logits if logits.dim() == 2 else logits[:, -1]
    x, _, _ = examples(name).batch(range(count), torch.device("cpu"))
    return x.tolist(), exact(x)


LOGITS = """async ([root, name, inputs]) => {
  const model = await zoo.model(name, root);
  const words = (text) => zoo.tokens(model, zoo.split(text));
  const fitting = (story, question) => ({ story: words(story).slice(question.length - model.steps), question });
  return inputs.map((input) => {
    const rows = model.kind === "story" ? fitting(input[0], words(input[1])) : model.kind === "text" ? words(input) : model.kind === "writing" ? zoo.characters(model, input) : input;
    const { logits, outputs } = model.run(rows);
    return [...logits.slice(-outputs)];
  });
}"""
"""JavaScript: the logits after the last step of each input."""


@pytest.mark.parametrize("name", LIVE)
@torch.no_grad()
def test_logits_are_those_of_python(folder: Path, browser: Any, name: str) -> None:
    inputs, expected = inputs_of(name)
    visit = Visit(browser, folder, f"models/{name}.html")
    logits = torch.tensor(visit.page.evaluate(LOGITS, ["../", name, inputs]))
    assert len(logits) == 20
    assert float((logits - expected).abs().max()) < 1e-3
    visit.check()
    visit.page.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_whole(folder: Path, browser: Any, path: str) -> None:
    """No error, no request elsewhere, few bytes, nothing wider than a phone, nothing that moves, no violation that axe sees."""
    for scheme, width in (("light", 1280), ("dark", 390)):
        visit = Visit(browser, folder, path, viewport={"width": width, "height": 844}, color_scheme=scheme)
        visit.check()
        assert visit.bytes < (2 * PAGE_BYTES if path.startswith("papers/") else PAGE_BYTES)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        shift = "new Promise((done) => { let sum = 0; new PerformanceObserver((list) => { for (const e of list.getEntries()) sum += e.value; }).observe({ type: 'layout-shift', buffered: true }); setTimeout(() => done(sum), 100); })"
        assert visit.page.evaluate(shift) < 0.05
        found = axe.Axe().run(
            visit.page,
            options={
                "resultTypes": ["violations"],
                "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
            },
        )
        violations = [(v["id"], [node["html"][:160] for node in v["nodes"]][:3]) for v in found.response["violations"]]
        assert violations == []
        visit.page.close()


@pytest.mark.parametrize(
    "path", ["index.html", f"models/{HEADLINE}.html", f"models/{MUSIC}.html", "papers/star.html", "why.html"]
)
def test_a_page_paints_soon_and_stands_still(folder: Path, browser: Any, path: str) -> None:
    """First contentful paint in the best of three visits, and the layout's shift until half a second after loading."""
    paints = []
    for width in (1280, 390, 1280):
        visit = Visit(browser, folder, path, viewport={"width": width, "height": 844})
        paint, shift = visit.page.evaluate(
            """async () => {
              let shift = 0, first;
              const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
              new PerformanceObserver((list) => { for (const entry of list.getEntries()) shift += entry.value; }).observe({ type: "layout-shift", buffered: true });
              for (let i = 0; i < 100 && !first; i++) { await wait(50); [first] = performance.getEntriesByName("first-contentful-paint"); }
              await wait(500);
              return [first ? first.startTime : 1e6, shift];
            }"""
        )
        assert shift < 0.1
        paints.append(paint)
        visit.page.close()
    assert min(paints) < 1000


def test_every_model_page_opens(folder: Path, browser: Any) -> None:
    """A page of every kind of model was tested above; here are many more, without axe."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    for path in paths[:: 1 if os.environ.get("RNNZOO_SITE") else 15]:
        visit = Visit(browser, folder, path)
        visit.check()
        visit.page.close()


def test_filters_filter_and_the_address_keeps_them(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, "index.html")
    page = visit.page
    rows = "[...document.querySelectorAll('#models tbody tr')].filter((r) => !r.hidden).map((r) => [...r.cells].map((c) => c.textContent))"
    every = page.evaluate(rows)
    assert len(every) == len(registry.models())
    page.select_option("[name=task]", "pmnist")
    page.select_option("[name=size]", "100000")
    page.check("[name=weights]")
    page.click("th[data-sort=measured] button")
    small = page.evaluate(rows)
    assert 3 < len(small) < len(every)
    assert {row[5] for row in small} == {"pmnist"}
    assert all(int(row[4].replace(",", "")) < 100_000 and row[6] != "-" for row in small)
    figures = [float(row[1].split()[0]) for row in small]
    assert figures == sorted(figures, reverse=True)
    shown = page.evaluate(
        "[...document.querySelectorAll('.dots a')].filter((a) => !a.classList.contains('off')).map((a) => a.textContent.split(':')[0])"
    )
    assert set(shown) == {row[0] for row in small}
    assert page.text_content("#count") == f"{len(small)} of {len(every)} models"
    page.click("th[data-sort=parameters] button")
    smallest = page.evaluate(rows)
    assert smallest != small
    page.reload()
    page.wait_for_timeout(50)  # whatever the page still does after loading is done
    assert page.evaluate(rows) == smallest
    assert page.get_attribute("th[data-sort=parameters]", "aria-sort") == "ascending"
    assert "sort=parameters" in page.url
    page.fill("[name=q]", "star 2x128")
    assert {row[0] for row in page.evaluate(rows)} == {"star-2x128-pmnist"}
    page.fill("[name=q]", "nothing of the kind")
    assert page.evaluate(rows) == []
    page.click("#clear")
    assert page.wait_for_function("document.getElementById('none').hidden")
    assert len(page.evaluate(rows)) == len(every)
    page.click(".presets a >> nth=0")
    assert f"task={page.input_value('[name=task]')}" in page.url
    assert 0 < len(page.evaluate(rows)) < 20
    visit.check()
    page.close()


@torch.no_grad()
def test_the_leaderboard_sorts_and_shows_what_is_typed(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, "leaderboard.html")
    page = visit.page
    column = "(n) => [...document.querySelectorAll('#ranks tbody tr')].filter((r) => !r.hidden).map((r) => r.cells[n].dataset.v ?? r.cells[n].textContent)"
    placed = leaderboard.ranked()
    tasks = list(placed)
    task = next(
        task for task in tasks if len(placed[task]) < len(page.evaluate(column, 0))
    )  # on which cells are missing
    head = f"#ranks thead th:nth-child({tasks.index(task) + 3})"
    places = [str(place) for place, _ in placed[task]]
    missing = ["-"] * (len(page.evaluate(column, 0)) - len(places))
    for order, direction in ((places, "ascending"), (places[::-1], "descending")):
        page.click(f"{head} button")
        assert page.evaluate(column, tasks.index(task) + 2) == [*order, *missing]
        assert page.get_attribute(head, "aria-sort") == direction
    page.click("#ranks thead th:first-child button")
    names = page.evaluate(column, 0)
    assert names == sorted(names, key=lambda name: name.replace("-", " "))
    page.fill("#search", "GRU lstm-f")
    assert page.evaluate(column, 0) == [name for name in names if "gru" in name or "lstm-f" in name]
    points = "[...document.querySelectorAll('.dots a')].filter((a) => !a.classList.contains('off')).map((a) => a.textContent.split(':')[0])"
    assert set(page.evaluate(points)) <= set(page.evaluate(column, 0))
    assert page.text_content("#count") == f"{len(page.evaluate(column, 0))} of {len(names)} cells"
    page.fill("#search", "")
    assert (page.evaluate(column, 0), page.text_content("#count")) == (names, "")
    visit.check()
    page.close()


def test_a_digit_that_is_drawn(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{HEADLINE}.html", reduced_motion="reduce")
    page = visit.page
    box = page.locator("#pad").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    for step in range(1, 11):
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + (0.2 + 0.06 * step) * box["height"])
    page.mouse.up()
    peers = page.evaluate("[...document.querySelector('[data-do=peer]').options].map((option) => option.value)")
    assert {registry.find(peer).model.task for peer in peers if peer} == {"pmnist"}
    page.select_option("[data-do=peer]", "lstm-4x128-pmnist")
    page.click("[data-do=run]")
    page.wait_for_function("document.querySelector('.now').textContent.startsWith('Answer')")
    assert "star-16x64-pmnist: 1 (" in page.text_content(".now")
    data = page.evaluate(
        "zoo.widget.runs.map(({ model, trace }) => ({ name: model.name, rows: zoo.widget.input.read(model), logits: [...trace.logits.slice(-10)], bytes: model.bytes }))"
    )
    assert [each["name"] for each in data] == [HEADLINE, "lstm-4x128-pmnist"]
    x = torch.tensor(data[0]["rows"])[None]
    assert x.shape == (1, 784, 1)
    assert float((load(HEADLINE, device="cpu")(x) - torch.tensor(data[0]["logits"])).abs().max()) < 1e-3
    assert page.locator(".run").count() == 2
    page.fill("[data-do=step]", "100")
    assert page.text_content(".now").startswith("After step 101 of 784")
    visit.check()
    page.close()


def test_a_run_fits_the_budget_of_bytes(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{HEADLINE}.html", reduced_motion="reduce")
    visit.page.click("[data-do=sample]")
    visit.page.wait_for_function("document.querySelector('.now').textContent.startsWith('Answer')")
    assert PAGE_BYTES < visit.bytes < RUN_BYTES
    visit.check()
    visit.page.close()


@pytest.mark.parametrize(
    "name", ["gru-1x200-spooky", "rin-1x100-babi-20", "rin-1x100-adding-200", "gru-1x128-mnist-rows"]
)
def test_other_kinds_of_input_run(folder: Path, browser: Any, name: str) -> None:
    visit = Visit(browser, folder, f"models/{name}.html", reduced_motion="reduce")
    page = visit.page
    if page.locator("[data-do=sample]").count():
        page.click("[data-do=sample]")
    else:
        page.click("[data-do=run]")
    page.wait_for_function("document.querySelector('.now').textContent.startsWith('Answer')")
    for view in page.evaluate("[...document.querySelector('[data-do=view]').options].map((o) => o.value)"):
        page.select_option("[data-do=view]", view)
    page.fill("[data-do=step]", "1")
    assert page.locator(".scores li").count() >= 1
    visit.check()
    page.close()


@pytest.mark.parametrize("name", [name for name in LIVE if live.kind_of(registry.find(name)) == "story"])
@torch.no_grad()
def test_a_page_begins_with_a_story_of_words_that_its_network_knows(folder: Path, browser: Any, name: str) -> None:
    visit = Visit(browser, folder, f"models/{name}.html", reduced_motion="reduce")
    visit.page.click("[data-do=run]")
    answer = visit.answered()
    network = load(name, device="cpu")
    story, question = (visit.page.input_value(f"#{part}") for part in ("story", "question"))
    assert {*network.tokenizer.split(story), *network.tokenizer.split(question)} <= set(network.tokenizer.words)
    assert "Not in the vocabulary" not in visit.page.text_content(".vocabulary")
    expected = network.tokenizer.words[network(*network.tokenizer.ask(story, question)).argmax()]
    assert answer.startswith(f"Answer: {expected} (")
    visit.page.fill("#question", f"{question} zzyzx")
    visit.page.click("[data-do=run]")
    visit.page.wait_for_function(
        "document.querySelector('.vocabulary').textContent.startsWith('Not in the vocabulary: zzyzx.')"
    )
    visit.check()
    visit.page.close()


@torch.no_grad()
def test_a_text_goes_on_as_in_python(folder: Path, browser: Any) -> None:
    name = "gru-2x256-shakespeare"
    visit = Visit(browser, folder, f"models/{name}.html", reduced_motion="reduce")
    page = visit.page
    page.fill("#text", "ROMEO:\nI love")
    page.fill("#length", "60")
    page.fill("#temperature", "0")
    page.click("[data-do=run]")
    page.wait_for_function("document.querySelector('.now').textContent.startsWith('Next')")
    network = quantized(load(name, device="cpu")).eval()
    assert page.text_content(".written") == generate(network, prompt="ROMEO:\nI love", length=60, temperature=0)
    page.fill("#temperature", "1.5")
    page.click("[data-do=run]")
    page.fill("#text", "\u00e4")
    page.click("[data-do=run]")
    page.wait_for_function("document.querySelector('.now').textContent.includes('is not in the vocabulary')")
    visit.check()
    page.close()


def test_without_javascript_all_is_there_but_the_run(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, "index.html", java_script_enabled=False)
    assert visit.page.locator("#models tbody tr").count() == len(registry.models())
    assert not visit.page.locator("#filters").is_visible()
    visit.page.close()
    visit = Visit(browser, folder, f"models/{HEADLINE}.html", java_script_enabled=False)
    assert visit.page.locator("svg").count() >= 4
    assert not visit.page.locator(".widget").is_visible()
    visit.page.close()


def test_the_explorable_shows_what_is_chosen(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, "why.html?cell=rnn&beside=star")
    page = visit.page
    forms = page.locator(".pick")
    assert forms.nth(0).locator("[name=cell]").input_value() == "rnn"
    before = forms.nth(1).locator(".view").inner_html()
    forms.nth(1).locator("[name=loss]").select_option("all")
    assert forms.nth(1).locator(".view").inner_html() != before
    forms.nth(0).locator("[name=cell]").select_option("gru")
    assert "cell=gru" in page.url
    page.reload()  # what was chosen is in the address
    assert forms.nth(0).locator("[name=cell]").input_value() == "gru"
    assert forms.nth(1).locator("[name=loss]").input_value() == "all"
    visit.check()
    page.close()


def test_every_stored_network_of_a_cell_can_be_chosen(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"why.html?cell={HEADLINE}&beside=nothing")
    stored, (left, right) = pages.stored_lattices(), visit.page.locator(".pick").all()
    assert left.locator("[name=network]").input_value() == HEADLINE
    names = [option.get_attribute("value") for option in left.locator("[name=network] option").all()]
    assert names == [entry["name"] for entry in stored if entry["cell"] == "star"]
    assert right.locator("[name=cell]").input_value() == "star"  # as without a wrong name
    visit.check()
    visit.page.close()


def test_an_unknown_order_in_the_address_changes_nothing_else(folder: Path, browser: Any) -> None:
    for order in ("bogus", "row", "-order", "__proto__"):
        visit = Visit(browser, folder, f"index.html?task=pmnist&sort={order}")
        count = visit.page.locator("#count").inner_text()
        assert 0 < int(count.split()[0]) < int(count.split()[2])
        visit.check()
        visit.page.close()


def draw(page: Any) -> None:
    """Draw a stroke on the pad."""
    box = page.locator("#pad").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 110, box["y"] + 200, steps=5)
    page.mouse.up()


def test_a_new_drawing_takes_the_place_of_the_old_answer(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{HEADLINE}.html", reduced_motion="reduce")
    page = visit.page
    page.click("[data-do=sample]")
    visit.answered()
    assert page.locator(".runs > *").first.is_visible()
    draw(page)
    assert page.text_content(".now").startswith("Press")
    assert not page.locator(".runs > *").first.is_visible()
    page.click("[data-do=run]")
    visit.answered()
    assert page.locator(".runs > *").first.is_visible()
    visit.check()
    page.close()


def test_a_load_that_was_stopped_says_nothing_more(folder: Path, browser: Any) -> None:
    """Neither that it is still loading nor, later, that it failed."""
    visit = Visit(browser, folder, f"models/{HEADLINE}.html")
    page = visit.page
    page.evaluate("() => { zoo.model = () => new Promise((_, reject) => { window.fail = reject; }); }")
    page.click("[data-do=sample]")
    assert page.text_content(".now").startswith("Loading")
    draw(page)
    said = page.text_content(".now")
    assert said.startswith("Press")
    page.evaluate('() => { fail(new Error("too late")); }')
    page.wait_for_timeout(100)
    assert page.text_content(".now") == said
    visit.check()
    page.close()


def test_a_text_without_words_is_not_read(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, "models/gru-1x200-spooky.html")
    visit.page.fill("#text", "  ")
    visit.page.click("[data-do=run]")
    assert visit.answered("Write") == "Write a text first."
    visit.check()
    visit.page.close()
