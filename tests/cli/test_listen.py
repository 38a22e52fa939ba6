"""`rnnzoo listen`: what is heard and when, as a table and as JSON, and files and networks that do not fit."""

import io
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from helpers import wav

from zoo import load
from zoo.data import inputs
from zoo.data.listening import PAUSE, QUIET, Listener

Run = Callable[..., tuple[int, str, str]]
NAME = "mingru-3x96-fsdd"
SILENCE = numpy.zeros(3200, "int16")


def tone(hertz: float) -> numpy.ndarray:
    """Return 0.3 s of a tone, int16."""
    return (8000 * numpy.sin(2 * numpy.pi * hertz * numpy.arange(2400) / 8000)).astype("int16")


TWO = numpy.concatenate([SILENCE, tone(500), SILENCE, tone(1500)])


def test_it_prints_what_is_heard_and_when(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two.wav").write_bytes(wav(TWO))
    code, out, err = run("listen", NAME, str(tmp_path / "two.wav"), "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    listener = Listener(load(NAME, device="cpu"))
    expected = listener(torch.from_numpy(TWO)) + listener.finish()
    assert (data["name"], data["seconds"]) == (NAME, len(TWO) / 8000)
    assert [row["answer"] for row in data["words"]] == [word.answer for word in expected]
    assert [row["start"] for row in data["words"]] == pytest.approx([0.4, 1.1], abs=0.025)
    assert [row["end"] for row in data["words"]] == pytest.approx([0.7, 1.4], abs=0.025)
    assert data["words"][0]["answered"] == pytest.approx(data["words"][0]["end"] + 0.2)
    assert data["words"][1]["answered"] == data["words"][1]["end"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(wav(TWO))))
    code, out, _ = run("listen", NAME, "-")
    header, *rows = out.splitlines()
    assert (code, header.split()) == (0, ["START", "END", "ANSWERED", "WORD", "PROBABILITY"])
    assert [row.split()[6] for row in rows] == [word.answer for word in expected]
    assert all(row.index("%") > header.index("PROBABILITY") for row in rows)


LIVE = wav(TWO)[:40] + struct.pack("<I", 0xFFFFFFFF)
"""The header of a program that does not know when it will end."""


def test_a_word_from_standard_input_is_printed_when_its_pause_is_complete() -> None:
    command = [sys.executable, "-m", "rnnzoo_cli", "listen", NAME, "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        alarm = threading.Timer(120, process.kill)  # else a row that never comes would be waited for
        alarm.start()
        assert process.stdin is not None
        assert process.stdout is not None
        heard = TWO[: 3200 + 2400 + 1800]  # a little more than the pause of 0.2 s after the first word
        process.stdin.write(LIVE + heard.tobytes())
        process.stdin.flush()
        rows = [process.stdout.readline(), process.stdout.readline()]
        process.stdin.write(TWO[len(heard) :].tobytes())
        process.stdin.close()
        rows += process.stdout.readlines()
        alarm.cancel()
    assert process.returncode == 0
    assert [float(row.split()[0]) for row in rows[1:]] == pytest.approx([0.4, 1.1], abs=0.025)


class Interrupted(io.BytesIO):
    """A stream that Ctrl-C ends."""

    def read1(self, size: int | None = -1, /) -> bytes:
        if not (content := super().read1(size)):
            raise KeyboardInterrupt
        return content


def test_ctrl_c_ends_a_stream_with_its_last_word(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ((), ("--json",)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Interrupted(LIVE + TWO.tobytes())))
        code, out, _ = run("listen", NAME, "-", *options)
        assert (code, len(json.loads(out)["words"]) if options else len(out.splitlines()) - 1) == (130, 2)


def test_a_stream_that_breaks_off_keeps_what_was_heard(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrive(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    arrive(wav(TWO)[:-100])
    code, out, err = run("listen", NAME, "-")
    assert (code, len(out.splitlines()), out[-1]) == (1, 3, "\n")
    assert "The stream breaks off. " in err
    assert "but its header promises" in err
    arrive(wav(TWO)[:-100])
    code, out, err = run("listen", NAME, "-", "--json")
    assert (code, len(json.loads(out)["words"])) == (1, 2)
    arrive(wav(TWO)[:40] + bytes(4) + TWO.tobytes())  # a size of 0, as of some programs that write to a pipe
    code, out, err = run("listen", NAME, "-")
    assert (code, len(out.splitlines()), err) == (0, 3, "")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"One, two, three.")))
    code, out, err = run("listen", NAME, "-")
    assert (code, out, "not a WAV file" in err) == (2, "", True)
    monkeypatch.setattr(sys, "stdin", None)
    assert run("listen", NAME, "-") == (2, "", "rnnzoo: Standard input is closed. Give a file.\n")


def test_an_early_answer_is_provisional(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.wav").write_bytes(wav(TWO))
    code, out, _ = run("listen", NAME, str(tmp_path / "two.wav"), "--early", "2")
    rows = [line.split() for line in out.splitlines()[1:]]
    kinds = ["provisional", "final", "final"]  # the second word ends with the recording
    assert (code, [row[-1] for row in rows]) == (0, kinds)
    assert float(rows[0][4]) == pytest.approx(float(rows[0][2]) + 0.02, abs=0.011)
    assert rows[0][6] == rows[1][6]
    words = json.loads(run("listen", NAME, str(tmp_path / "two.wav"), "--early", "2", "--json")[1])["words"]
    assert [word["final"] for word in words] == [False, True, True]
    code, _, err = run("listen", NAME, str(tmp_path / "two.wav"), "--early", "20")
    assert (code, "less than or equal to 19" in err) == (2, True)
    assert f"(1 to {PAUSE - 1})" in " ".join(run("listen", "--help")[1].replace("│", " ").split())


def test_silence_has_no_words_and_the_level_is_an_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file.wav").write_bytes(wav(TWO // 1000))
    code, out, err = run("listen", NAME, str(tmp_path / "file.wav"), "--json")
    assert (code, json.loads(out)["words"]) == (0, [])
    assert f"Nothing is louder than {QUIET:g} dB" in err
    code, out, _ = run("listen", NAME, str(tmp_path / "file.wav"), "--quiet", "-80", "--json")
    assert (code, len(json.loads(out)["words"])) == (0, 2)
    assert f"(default: {QUIET:g})" in run("listen", "--help")[1]


@pytest.mark.parametrize(("name", "content", "words"), [
    (NAME, wav(TWO, channels=2), "this file has 2 channels"), (NAME, wav(TWO, rate=44100), "at 44,100 Hz"),
    (NAME, wav(TWO, width=1), "of 8-bit integers"), (NAME, wav(TWO[:0]), "has no audio"), (NAME, b"", "is empty"),
    (NAME, b"One, two, three.", "not a WAV file"), ("gru-1x128-mnist-rows", wav(TWO), "does not read recordings of speech"),
    ("gru-1x200-spooky", wav(TWO), "does not read recordings of speech"), ("gru-9x9-none", wav(TWO), "gru-9x9-none"),
])  # fmt: skip
def test_what_does_not_fit_is_one_line(run: Run, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / "file.wav").write_bytes(content)
    code, out, err = run("listen", name, str(tmp_path / "file.wav"))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_a_file_that_cannot_be_read_is_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_BYTES", 100)
    (tmp_path / "two.wav").write_bytes(wav(TWO))
    for file, expected in ((str(tmp_path / "nothing.wav"), 2), (str(tmp_path), 2), (str(tmp_path / "two.wav"), 2)):
        code, out, err = run("listen", NAME, file)
        assert (code, out, len(err.strip().splitlines())) == (expected, "", 1)
