"""`rnnzoo predict`: files of a user's own, of every kind that a model reads, and files that do not fit."""

import errno
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from PIL import Image
from rnnzoo_cli import predicting
from rnnzoo_cli.arguments import content_of

from zoo import build, examples, load, registry
from zoo.data.answers import answer
from zoo.data.inputs import read_example
from zoo.errors import RequestError

Run = Callable[..., tuple[int, str, str]]
DIGITS = "gru-1x128-mnist-rows"


def image(index: int, inverted: bool = False) -> bytes:
    """The content of an image file with a test digit."""
    pixels = examples(DIGITS).raw[index].tolist()
    file = io.BytesIO()
    Image.frombytes("L", (28, 28), bytes(255 - p if inverted else p for p in pixels)).convert("RGB").save(file, "PNG")
    return file.getvalue()


def broken(png: bytes) -> bytes:
    """A PNG of which one chunk has another length than it says; Pillow raises SyntaxError."""
    at = png.index(b"IDAT") - 1
    return png[:at] + bytes([png[at] ^ 128]) + png[at + 1 :]


@pytest.mark.parametrize("inverted", [False, True], ids=["white on black", "black on white"])
def test_an_image_is_read_as_the_test_images_are(run: Run, tmp_path: Path, inverted: bool) -> None:
    network, split = load(DIGITS, device="cpu"), examples(DIGITS)
    x, y, _ = split.batch(torch.arange(5))
    for i in range(5):
        assert torch.equal(read_example(network, image(i, inverted))[0], x[i : i + 1])
    (tmp_path / "digit.png").write_bytes(image(0, inverted))
    code, out, _ = run("predict", DIGITS, str(tmp_path / "digit.png"), "--top", "2", "--device", "cpu", "--json")
    rows = json.loads(out)["classes"]
    assert (code, len(rows), rows[0]["class"]) == (0, 2, str(int(y[0])))
    assert rows[0]["probability"] == pytest.approx(network(x[:1]).softmax(1).max().item())


def saved(picture: Image.Image) -> bytes:
    picture.save(file := io.BytesIO(), "PNG")
    return file.getvalue()


def test_transparency_is_white_and_16_bits_are_not_cut_off() -> None:
    network, grey = load(DIGITS, device="cpu"), Image.open(io.BytesIO(image(0))).convert("L")
    x = examples(DIGITS).batch(torch.arange(1))[0]
    strokes = Image.new("RGBA", grey.size)  # black, and as opaque as the digit is white
    strokes.putalpha(grey)
    deep = grey.point(lambda value: value * 256, "I")
    for picture in (strokes, deep.convert("I;16")):
        assert torch.equal(read_example(network, saved(picture))[0], x)
    # the same in the other order of bytes
    (big := Image.frombytes("I;16B", deep.size, numpy.array(deep).astype(">u2").tobytes())).save(
        file := io.BytesIO(), "TIFF"
    )
    assert Image.open(file).mode == big.mode
    assert torch.equal(read_example(network, file.getvalue())[0], x)
    deep.point(lambda value: value / 65536).convert("F").save(file := io.BytesIO(), "TIFF")
    with pytest.raises(RequestError, match="their full scale is unknown"):
        read_example(network, file.getvalue())


def test_an_answer_is_to_one_example_and_to_its_last_step() -> None:
    network = load("gru-2x256-shakespeare", device="cpu")
    tokens, lengths = network.tokenizer("To be")
    padded = torch.cat([tokens, torch.zeros_like(tokens)], 1)
    assert answer(network, padded, lengths) == answer(network, tokens, lengths)
    half = load("gru-1x128-mnist-rows", device="cpu", dtype="bfloat16")
    assert len(answer(half, torch.zeros(1, 28, 28)).names) == 5
    with pytest.raises(RequestError, match="to one example"):
        answer(network, torch.cat([tokens, tokens]))
    network.head = torch.nn.Linear(256, 3)
    with pytest.raises(RequestError, match="has 3 outputs, but its config 67"):
        answer(network, tokens)


def test_a_turned_image_is_turned_back() -> None:
    turned = Image.open(io.BytesIO(image(0))).transpose(Image.Transpose.ROTATE_90)
    turned.getexif()[0x0112] = 6  # a viewer turns it by 90 degrees clockwise
    turned.save(file := io.BytesIO(), "PNG", exif=turned.getexif())
    network = load(DIGITS, device="cpu")
    assert torch.equal(read_example(network, file.getvalue())[0], examples(DIGITS).batch(torch.arange(1))[0])


def test_a_text_of_a_language_model_keeps_its_lines() -> None:
    network, text = load("gru-2x256-shakespeare", device="cpu"), "ROMEO:\nBut soft!\n\nJULIET:\n"
    x, _ = read_example(network, b"\xef\xbb\xbf" + text.encode())
    assert torch.equal(x, network.tokenizer(text[:-1])[0])
    assert network.tokenizer("\n")[0].item() in x


def test_a_table_may_begin_with_a_byte_order_mark() -> None:
    network = load("gru-2x64-lorenz", device="cpu")
    assert torch.equal(read_example(network, b"\xef\xbb\xbf0.5\n1")[0], torch.tensor([[[0.5], [1.0]]]))


def test_a_text_comes_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "A dreadful horror rose from the nameless gulf."
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    code, out, _ = run("predict", "gru-1x200-spooky", "-", "--device", "cpu")
    network = load("gru-1x200-spooky", device="cpu")
    best = network.classes[network(*network.tokenizer(text)).argmax()]
    assert (code, out.splitlines()[1].split()[0]) == (0, best)


def test_several_files_have_their_names_beside_their_answers(run: Run, tmp_path: Path) -> None:
    texts = {"a.txt": "A dreadful horror rose from the nameless gulf.", "b.txt": "She loved him."}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths, network = [str(tmp_path / name) for name in texts], load("gru-1x200-spooky", device="cpu")
    code, out, _ = run("predict", "gru-1x200-spooky", *paths, "--top", "1", "--device", "cpu")
    best = [network.classes[network(*network.tokenizer(text)).argmax()] for text in texts.values()]
    header, *rows = [line.split()[:2] for line in out.splitlines()]
    assert (code, header, rows) == (0, ["FILE", "CLASS"], [[p, c] for p, c in zip(paths, best, strict=True)])
    answers = [json.loads(run("predict", "gru-1x200-spooky", path, "--device", "cpu", "--json")[1]) for path in paths]
    both = json.loads(run("predict", "gru-1x200-spooky", *paths, "--device", "cpu", "--json")[1])
    assert [file["classes"] for file in both["files"]] == [answer["classes"] for answer in answers]
    assert [file["file"] for file in both["files"]] == paths
    (tmp_path / "empty").write_text("")
    code, out, err = run("predict", "gru-1x200-spooky", *paths, str(tmp_path / "empty"), "--device", "cpu")
    assert (code, f"{tmp_path / 'empty'}: gru-1x200-spooky reads text" in err) == (2, True)
    assert {line.split()[0] for line in out.splitlines()} == {"FILE", *paths}  # the others are answered
    assert f"1 of 3 files could not be answered: {tmp_path / 'empty'}." in err
    code, out, err = run(
        "predict", "gru-1x200-spooky", str(tmp_path / "none"), str(tmp_path / "empty"), "--device", "cpu"
    )
    assert (code, out, "There is no file" in err, "2 of 2 files" in err) == (2, "", True, True)
    files = json.loads(
        run("predict", "gru-1x200-spooky", paths[0], str(tmp_path / "none"), "--device", "cpu", "--json")[1]
    )
    assert ["classes" in file for file in files["files"]] == [True, False]
    assert "There is no file" in files["files"][1]["error"]


def test_a_file_that_cannot_be_read_is_no_wrong_request(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("A dreadful horror rose from the nameless gulf.")

    def content(file: str) -> bytes:
        if file == "damaged":
            raise OSError(errno.EIO, "Input/output error")
        return content_of(file)

    monkeypatch.setattr(predicting, "content_of", content)
    for other, code in (("damaged", 1), (str(tmp_path / "none"), 2)):
        found, out, err = run("predict", "gru-1x200-spooky", str(tmp_path / "a.txt"), other, "--device", "cpu")
        assert (found, "a.txt" in out, f"1 of 2 files could not be answered: {other}." in err) == (code, True, True)
    found, _, err = run("predict", "gru-1x200-spooky", "damaged", str(tmp_path / "none"), "--device", "cpu")
    assert (found, "damaged: it cannot be read (Input/output error)." in err) == (1, True)


def test_standard_input_is_given_once(run: Run) -> None:
    code, _, err = run("predict", DIGITS, "-", "-", "--device", "cpu")
    assert (code, "Standard input can be read only once" in err) == (2, True)


def test_several_files_of_values_are_rows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("0.5,1\n0.25,1")
    path = str(tmp_path / "numbers.csv")
    _, one, _ = run("predict", "rin-1x100-adding-200", path, "--device", "cpu")
    code, out, _ = run("predict", "rin-1x100-adding-200", path, path, "--device", "cpu")
    assert (code, out.splitlines()[0].split()) == (0, ["FILE", "VALUE"])
    assert [line.split() for line in out.splitlines()[1:]] == 2 * [[path, one.strip()]]


def test_a_story_ends_with_its_question_and_the_answer_is_a_word(run: Run, tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("Sumit is tired.\n\nWhere will Sumit go?\n")
    code, out, _ = run("predict", "rin-1x100-babi-20", str(tmp_path / "story.txt"), "--device", "cpu")
    assert (code, out.splitlines()[1].split()[0]) == (0, "bedroom")


def test_a_table_has_a_line_for_each_step_and_one_without_steps(run: Run, tmp_path: Path) -> None:
    x, _, _ = examples("adding-200").batch(torch.arange(1))
    path = tmp_path / "numbers.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in x[0].tolist()))
    code, out, _ = run("predict", "rin-1x100-adding-200", str(path), "--device", "cpu", "--json")
    assert code == 0
    expected = load("rin-1x100-adding-200", device="cpu")(x)[0].tolist()
    assert json.loads(out)["values"] == pytest.approx(expected, rel=1e-5)
    path.write_text("0.1,0.9")
    assert run("predict", "mlp-3x8-circles.prelu-tuned", str(path), "--device", "cpu")[0] == 0


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (DIGITS, b"1,2,3", "28 finite numbers, separated by commas, on each line, but line 1 has 3: '1,2,3'"),
        (DIGITS, b"\n" + b"1," * 27 + b"two", "but line 2 is '1,1,"),
        (DIGITS, b"", "reads an image or 28 finite numbers, separated by commas, on each line, but this file is empty"),
        ("rin-1x100-adding-200", b"1,0\n,\n0,1", "but line 2 is ','"),
        ("rin-1x100-adding-200", b",\n0,1", "but line 1 is ','.\n"),
        ("rin-1x100-adding-200", b"1,0\r0,1,2", "but line 2 has 3: '0,1,2'"),
        ("gru-2x64-lorenz", b"1\n1_0", "one finite number on each line, but line 2 is '1_0'"),
        ("rin-1x100-adding-200", b"number,mark\n1,0", "line 1 is 'number,mark'. Leave out the line of headings."),
        ("rin-1x100-adding-200", b"1,x\n1,0", "line 1 is '1,x'.\n"),
        (DIGITS, b"\xff\xfe", "but this file is not a table of numbers"),
        ("gru-2x64-lorenz", b"1\n1e39", "one finite number on each line, but line 2 is '1e39'"),
        (DIGITS, b"\x89PNG and nothing more", "image cannot be read"),
        (DIGITS, broken(image(0)), "image cannot be read: broken PNG file"),
        (DIGITS, saved(Image.new("L", (9, 9), 7)), "of one colour only"),
        (DIGITS, saved(Image.new("1", (20_001, 1))), "it has 20,001 x 1 pixels, more than 20,000 on one side"),
        ("gru-1x200-spooky", b"\xff\xfe", "not UTF-8"),
        ("gru-1x200-spooky", b" \n", "is empty"),
        ("rin-1x100-babi-20", b"Only a question?", "on the last line, a question"),
        ("rin-1x100-adding-200", image(0), "does not read images"),
        ("convlstm-f-2x8-nmnist-small", b"1,2", "which a table cannot hold"),
        ("mlp-3x8-circles.prelu-tuned", b"1,2\n3,4", "this file has 2 lines. Give a file for each example."),
        ("rin-1x100-adding-200", b"1,0\r\n1,nan", "but line 2 is '1,nan'"),
    ],
)
def test_a_file_that_does_not_fit_says_why(run: Run, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / "file").write_bytes(content)
    code, out, err = run("predict", name, str(tmp_path / "file"), "--device", "cpu")
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_a_pipe_or_a_closed_input_is_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run("predict", DIGITS, str(tmp_path / "pipe"), "--device", "cpu")
    assert (code, "give - " in err) == (2, True)
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it for a program without standard input
    code, _, err = run("predict", DIGITS, "-", "--device", "cpu")
    assert (code, "Standard input is closed" in err) == (2, True)


@pytest.mark.parametrize("most", [100, 300])  # Pillow warns above the limit, and refuses above twice as much
def test_an_image_of_too_many_pixels_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    (tmp_path / "digit.png").write_bytes(image(0))  # 784 pixels
    code, _, err = run("predict", DIGITS, str(tmp_path / "digit.png"), "--device", "cpu")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "image cannot be read" in err


def test_a_network_without_a_task_of_the_registry_predicts_classes(run: Run, tmp_path: Path) -> None:
    build("star-1x4", inputs=2, outputs=3, device="cpu").save_pretrained(tmp_path / "mine")
    (tmp_path / "table.csv").write_text("0.5,1\n0.25,0\n")
    code, out, _ = run("predict", str(tmp_path / "mine"), str(tmp_path / "table.csv"), "--device", "cpu", "--json")
    assert code == 0
    assert sorted(row["class"] for row in json.loads(out)["classes"]) == ["0", "1", "2"]


def test_outputs_that_are_no_numbers_are_no_answer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(",".join(["3e38"] * 4 + ["-3e38"] * 4) + "\n")
    code, out, err = run("predict", "mlp-3x8-pima.prelu-tuned", str(tmp_path / "table.csv"), "--device", "cpu")
    assert (code, out) == (2, "")
    assert "for this input are infinite or NaN" in err


@pytest.mark.parametrize(("name", "first"), [("gru-2x64-lorenz", b"1\n2"), (DIGITS, b"0," * 27 + b"1")])
def test_a_replaced_head_answers_by_what_it_is(run: Run, tmp_path: Path, name: str, first: bytes) -> None:
    (tmp_path / "file.csv").write_bytes(first)
    answers = {}
    for classes, folder in (["up", "down"], tmp_path / "classes"), (1, tmp_path / "values"):
        load(name, device="cpu", classes=classes).save_pretrained(folder)
        code, out, _ = run("predict", str(folder), str(tmp_path / "file.csv"), "--device", "cpu", "--json")
        assert code == 0
        answers |= json.loads(out)
    assert len(answers["values"]) == 1
    assert {row["class"] for row in answers["classes"]} == {"up", "down"}
    assert sum(row["probability"] for row in answers["classes"]) == pytest.approx(1)


def test_a_forecast_says_of_when_each_value_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "series.csv").write_text("1\n2\n3\n")
    arguments = ("predict", "gru-2x64-lorenz", str(tmp_path / "series.csv"), "--device", "cpu")
    horizons = registry.find("gru-2x64-lorenz").task.horizons
    answer = json.loads(run(*arguments, "--json")[1])
    assert answer["steps_ahead"] == list(horizons)
    header, *rows = run(*arguments)[1].splitlines()
    assert header.split() == ["STEPS", "AHEAD", "VALUE"]
    assert [float(row.split()[1]) for row in rows] == pytest.approx(answer["values"], rel=1e-4)


def test_a_class_that_is_a_space_can_be_seen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("To be,")
    assert "' '" in run("predict", "gru-2x256-shakespeare", str(tmp_path / "text"), "--device", "cpu")[1]


def test_line_breaks_of_windows_are_line_breaks() -> None:
    network, text = load("gru-2x256-shakespeare", device="cpu"), "ROMEO:\nBut soft!\n"
    assert torch.equal(
        read_example(network, text.replace("\n", "\r\n").encode())[0], read_example(network, text.encode())[0]
    )


def test_only_what_is_mostly_white_is_inverted() -> None:
    network, prepare = load(DIGITS, device="cpu"), examples(DIGITS).prepare
    for white, inverts in ((13, False), (15, True)):  # of 28 rows
        pixels = bytes([255] * 28 * white + [0] * 28 * (28 - white))
        seen = bytes(255 - p for p in pixels) if inverts else pixels
        x, _ = read_example(network, saved(Image.frombytes("L", (28, 28), pixels)))
        assert torch.equal(x, prepare(torch.tensor([list(seen)], dtype=torch.uint8)))


def test_each_key_of_music_has_a_probability_of_its_own(run, tmp_path) -> None:
    network = load("star-2x96-jsb", device="cpu")
    x = torch.zeros(1, 2, 88)
    x[0, :, [39, 43, 46]] = 1
    (tmp_path / "chords.csv").write_text("\n".join(",".join(f"{v:g}" for v in frame) for frame in x[0].tolist()))
    code, out, _ = run(
        "predict", "star-2x96-jsb", str(tmp_path / "chords.csv"), "--top", "4", "--device", "cpu", "--json"
    )
    with torch.no_grad():
        shares, keys = network(x)[0, -1].sigmoid().topk(4)
    rows = json.loads(out)["classes"]
    assert (code, [row["class"] for row in rows]) == (0, [network.classes[key] for key in keys.tolist()])
    torch.testing.assert_close(torch.tensor([row["probability"] for row in rows]), shares)


def test_a_text_of_unknown_words_alone_is_refused(run, tmp_path):
    (tmp_path / "text.txt").write_text("123 !!!")
    code, out, err = run("predict", "gru-1x200-spooky", str(tmp_path / "text.txt"))
    assert (code, out) == (2, "")
    assert "knows no word of this text" in err


def test_a_cell_of_missing_values_reads_them_from_a_table() -> None:
    net = build("gru-d-1x4", inputs=2, outputs=3, device="cpu")
    x, _ = read_example(net, b"0.1,nan\n, 2\n3,4\n")
    torch.testing.assert_close(x, torch.tensor([[[0.1, torch.nan], [torch.nan, 2], [3, 4]]]), equal_nan=True)
    with pytest.raises(
        RequestError, match=r"2 finite numbers, separated by commas, or nan where one is missing, .* '1,x'"
    ):
        read_example(net, b"1,x")
    with pytest.raises(RequestError, match=r"line 1 is '0\.1,nan'"):
        read_example(build("gru-1x4", inputs=2, outputs=3, device="cpu"), b"0.1,nan")
