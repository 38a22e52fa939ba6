"""Models of speech, music and series in headless Chromium: what they hear, play and read is what Python has."""

import struct
import wave
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from browsing import CHROMIUM, FORECAST, HEADLINE, MUSIC, SPEECH, Visit

from zoo import generate, load, registry
from zoo.data import speech
from zoo.data.forecast import Forecast, series
from zoo.data.listening import Listener
from zoo.utils.text import ahead_text

pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.filterwarnings("ignore"),
]


def words() -> torch.Tensor:
    """Two sounds of vowels between silence, int16, at 8 kHz."""
    time = torch.arange(3 * speech.RATE) / speech.RATE
    pitch = sum(torch.sin(2 * torch.pi * 130 * n * time) / (1 + abs(n - 5)) for n in range(1, 25))
    loud = ((time > 0.3) & (time < 0.8)).float() + ((time > 1.6) & (time < 2.0)).float()
    noise = torch.randn(len(time), generator=torch.Generator().manual_seed(0))
    return (32768 * (0.08 * pitch * loud + 5e-4 * noise)).to(torch.int16)


def test_frames_of_sound_are_those_of_python(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{SPEECH}.html")
    sound = words().float() / 32768
    for samples in (sound, sound[4000:4100], torch.randn(3000, generator=torch.Generator().manual_seed(1))):
        frames = torch.tensor(visit.page.evaluate("(samples) => zoo.logMel(samples)", samples.tolist()))
        torch.testing.assert_close(frames, speech.log_mel(samples), rtol=0, atol=1e-4)
    heard = Listener(load(SPEECH, device="cpu"))(words())
    word = visit.page.evaluate("(samples) => zoo.word(zoo.logMel(samples))", sound.tolist())
    assert len(heard) == 2
    assert word["ended"]
    assert word["first"] * speech.HOP / speech.RATE == pytest.approx(heard[0].start)
    assert (word["last"] * speech.HOP + speech.WINDOW) / speech.RATE == pytest.approx(heard[0].end)
    visit.check()
    visit.page.close()


@pytest.mark.parametrize("rate", [48000, 44100, 8000])
def test_samples_at_another_rate(folder: Path, browser: Any, rate: int) -> None:
    """A tone stays, and one above half of the lower rate, which would come back as another, vanishes."""
    visit = Visit(browser, folder, f"models/{SPEECH}.html")
    for hertz, height in ((1000, 1.0), (3000, 1.0), (5500, 0.0)):
        time = torch.arange(rate // 4, dtype=torch.float64) / rate
        tone = torch.sin(2 * torch.pi * hertz * time).tolist()
        found = visit.page.evaluate("([x, rate]) => [...zoo.resample(x, rate, 8000)]", [tone, rate])
        expected = height * torch.sin(2 * torch.pi * hertz * torch.arange(2000, dtype=torch.float64) / 8000)
        if rate > 8000 or height:
            assert len(found) == 2000
            assert float((torch.tensor(found) - expected)[100:-100].abs().max()) < 0.01
    visit.page.close()


@torch.no_grad()
def test_a_file_is_heard_as_in_python(folder: Path, browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, folder, f"models/{SPEECH}.html", reduced_motion="reduce")
    page, samples = visit.page, words()
    with wave.open(str(tmp_path / "vowels.wav"), "wb") as file:
        file.setparams((1, 2, speech.RATE, 0, "NONE", ""))
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples.tolist()))
    page.click("[data-do=run]")
    page.wait_for_function("document.querySelector('.now').textContent.startsWith('Speak')")
    page.set_input_files("[data-do=file]", str(tmp_path / "vowels.wav"))
    answer = visit.answered()
    network = load(SPEECH, device="cpu")
    word = Listener(network)(samples)[0]
    first, last = (round(t * speech.RATE / speech.HOP) for t in (word.start, word.end - speech.WINDOW / speech.RATE))
    expected = network(speech.log_mel(samples)[None, first : last + 1])[0]
    logits = page.evaluate("[...zoo.widget.runs[0].trace.logits.slice(-10)]")
    assert float((torch.tensor(logits) - expected).abs().max()) < 1e-3
    assert answer.startswith(f"Answer: {word.answer} (")
    (tmp_path / "no.wav").write_text("text")
    page.set_input_files("[data-do=file]", str(tmp_path / "no.wav"))
    page.wait_for_function("document.querySelector('.now').textContent.includes('no.wav is not a sound')")
    visit.check()
    page.close()


def test_recordings_are_there_if_the_data_is(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{SPEECH}.html", reduced_motion="reduce")
    buttons = visit.page.locator("[data-recording]")
    assert buttons.count() == (4 if (folder / "assets" / "recordings.js").exists() else 0)
    for place in range(buttons.count()):
        buttons.nth(place).click()
        digit = buttons.nth(place).text_content().split()[-1]
        visit.page.wait_for_function(f"document.querySelector('.now').textContent.startsWith('Answer: {digit} (')")
    assert ("CC-BY-SA-4.0" in visit.page.text_content("#try")) == bool(buttons.count())
    visit.check()
    visit.page.close()


def test_the_microphone_is_heard(folder: Path, browser: Any) -> None:
    """Chromium's stand-in for a microphone beeps once a second."""
    visit = Visit(browser, folder, f"models/{SPEECH}.html", reduced_motion="reduce")
    page = visit.page
    page.focus("[data-do=record]")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('[data-do=record]').textContent === 'Stop'")
    visit.answered()
    assert page.text_content("[data-do=record]") == "Speak"
    assert page.evaluate("zoo.widget.runs[0].rows.length") < 100  # a beep, not silence
    page.evaluate("document.querySelector('.now').textContent = ''")
    page.click("[data-do=record]")
    page.wait_for_function("document.querySelector('[data-do=record]').textContent === 'Stop'")
    page.click("[data-do=record]")  # at once, before or in the middle of a beep
    page.wait_for_function("document.querySelector('[data-do=record]').textContent === 'Speak'")
    visit.check()
    page.close()


def test_music_is_that_of_python_and_can_be_stopped(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{MUSIC}.html")
    page = visit.page
    page.evaluate(
        "() => { window.started = window.stopped = 0; for (const [name, count] of [['start', 'started'], ['stop', 'stopped']]) { const before = OscillatorNode.prototype[name]; OscillatorNode.prototype[name] = function (...a) { window[count]++; return before.apply(this, a); }; } }"
    )
    page.fill("#length", "40")
    page.fill("#temperature", "0")
    page.fill("#chords", "C3 E4 G4")
    page.fill("[data-do=speed]", "100")
    page.focus("[data-do=run]")
    page.keyboard.press("Enter")
    page.wait_for_function("window.started > 2")
    page.keyboard.press("Enter")
    assert page.text_content("[data-do=run]") == "Play"
    assert page.evaluate("window.started === window.stopped")
    rows = torch.tensor(page.evaluate("zoo.widget.runs[0].rows"), dtype=torch.float32)
    roll = generate(load(MUSIC, device="cpu"), prompt="C3 E4 G4", length=40, temperature=0)
    assert torch.equal(rows, torch.as_tensor(roll))
    page.uncheck("#sound")
    before = page.evaluate("window.started")
    page.keyboard.press("Tab")
    page.click("[data-do=run]")
    visit.answered("Next")
    assert page.evaluate("window.started") == before
    page.fill("#chords", "H3")
    page.click("[data-do=run]")
    page.wait_for_function("document.querySelector('.now').textContent.includes('No key is called “H3”')")
    visit.check()
    page.close()


@pytest.mark.parametrize("layout", Forecast.layouts)
def test_series_are_those_of_python(folder: Path, browser: Any, layout: str) -> None:
    visit = Visit(browser, folder, f"models/{FORECAST}.html")
    draws = numpy.random.RandomState(7).random_sample(3).tolist()
    found = visit.page.evaluate("([name, draws]) => zoo.series[name](200, () => draws.shift())", [layout, draws])
    mean, std = Forecast.by_layout[layout]
    expected = (series(layout, 7, 200) - mean) / std
    assert len(found) == 200
    assert abs(numpy.array(found) - expected).max() < 1e-4
    visit.page.close()


def test_a_series_is_forecast(folder: Path, browser: Any) -> None:
    """The errors that the page counts are those of its forecasts, and about as large as on the test set."""
    visit = Visit(browser, folder, f"models/{FORECAST}.html", reduced_motion="reduce")
    page = visit.page
    page.focus("[data-do=run]")
    page.keyboard.press("Enter")
    visit.answered("At the end")
    rows = page.evaluate("zoo.widget.runs[0].rows.map((row) => row[0])")
    made = numpy.array(page.evaluate("[...zoo.widget.runs[0].trace.logits]")).reshape(len(rows), -1)
    task = registry.find(FORECAST).task
    errors = [
        numpy.sqrt(numpy.mean((made[task.steps - 1 : -h, i] - rows[task.steps - 1 + h :]) ** 2))
        for i, h in enumerate(task.horizons)
    ]
    said = ", ".join(f"{e:.3f} ({ahead_text(h)})" for e, h in zip(errors, task.horizons, strict=True))
    assert f"RMSE so far: {said}" in page.text_content(".now")
    assert errors[0] < 0.06
    page.fill("[data-do=step]", "50")
    assert "errors count once 100 steps are read" in page.text_content(".now")
    page.click("[data-do=sample]")
    visit.answered("At the end")
    assert page.evaluate("zoo.widget.runs[0].rows[0][0]") != rows[0]
    visit.check()
    page.close()


@torch.no_grad()
def test_gates_are_shown(folder: Path, browser: Any) -> None:
    visit = Visit(browser, folder, f"models/{HEADLINE}.html", reduced_motion="reduce")
    page = visit.page
    page.select_option("[data-do=peer]", "lstm-4x128-pmnist")
    page.click("[data-do=sample]")
    visit.answered()
    captions = page.locator(".gates-caption")
    assert [captions.nth(i).text_content().split(":")[0] for i in (0, 1)] == ["Gate k", "Gate f"]
    run = page.evaluate(
        "(({ trace, rows }) => ({ gates: [...trace.gates.slice(0, 64)], rows: rows.slice(0, 1) }))(zoo.widget.runs[0])"
    )
    network = load(HEADLINE, device="cpu")
    mean, std = network.mean_std
    x = (torch.tensor(run["rows"], dtype=torch.float32) - mean) / std
    projected = network.layers[0].forward_direction.input(x)[0, 64:]  # from a state of zeros
    torch.testing.assert_close(torch.tensor(run["gates"]), torch.sigmoid(projected), rtol=0, atol=1e-5)
    visit.check()
    page.close()
