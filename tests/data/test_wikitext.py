"""WikiText-2, word by word and byte by byte: vocabularies, windows, and text drawn from a network of either."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest
import torch

from zoo import Architecture, Config, Embedding, Interface, build, generate, load, registry
from zoo.checkpoints.tokenizer import RESERVED, ByteTokenizer, StreamTokenizer, WordTokenizer
from zoo.data import task_data
from zoo.data.base import IGNORED, TaskData
from zoo.errors import DataError, RequestError
from zoo.training.evaluation import measure

TEXTS = {
    "wiki.train.NONPRISTINE.txt": " = Émile = \n the <unk> cat and the dog and the cow \n",
    "wiki.valid.tokens": " the cat \n",
    "wiki.test.tokens": " the bird – and the dog \n",
}
VOCABULARY = 9


@pytest.fixture
def small(tmp_path, monkeypatch):
    def data(task: str, **changes: str) -> TaskData:
        contents = {name: (TEXTS | changes)[name].encode("utf-8", "surrogateescape") for name in TEXTS}
        (tmp_path / "wikitext-2").mkdir(exist_ok=True)
        for name, content in contents.items():
            (tmp_path / "wikitext-2" / f"{name}.gz").write_bytes(gzip.compress(content))
        monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
        known = registry.load_registry()
        pin = {"sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}}
        sizes = {"vocabulary": VOCABULARY, "outputs": VOCABULARY} if task.endswith("words") else {}
        declared = known.all_tasks[task].model_copy(update={"steps": 4, **sizes})
        return task_data(declared, known.datasets["wikitext-2-altered"].model_copy(update=pin))

    return data


def network(tokenizer: StreamTokenizer, form: str):
    size = len(tokenizer)
    config = Config(
        architecture=Architecture(cell="gru", layers=1, units=6, embedding=Embedding(size=4, trainable=True)),
        interface=Interface(vocabulary=size, outputs=size, steps=9, readout="every", form=form),
    )
    built = build(config, device="cpu", seed=1).eval()
    built.tokenizer = tokenizer
    return built


def test_words_are_the_most_frequent_of_the_training_text(small) -> None:
    data = small("wikitext2-words")
    assert data.tokenizer.words == ("<padding>", "<unknown>", "the", "<eos>", "=", "and", "<unk>", "cat", "cow")
    split = data.split("test")
    kept = split.targets.flatten() != IGNORED
    x = split.batch(torch.arange(len(split)))[0].flatten()[kept]
    assert data.tokenizer.decode(x) == "the <unk> <unk> and the <unk>"
    assert split.targets.flatten()[kept].tolist() == [6, 6, 5, 2, 6, 3]
    assert split.stream
    assert x.dtype == torch.int64


def test_bytes_are_those_of_the_file(small) -> None:
    data = small("wikitext2-bytes")
    for name, file in (("train", "wiki.train.NONPRISTINE.txt"), ("test", "wiki.test.tokens")):
        split, content = data.split(name), TEXTS[file].encode()
        kept = split.targets.flatten() != IGNORED
        assert bytes((split.raw.flatten()[kept] - 2).tolist()) == content[:-1]
        assert bytes((split.targets.flatten()[kept] - 2).tolist()) == content[1:]
    assert data.tokenizer.decode(data.tokenizer.encode(TEXTS["wiki.test.tokens"])) == TEXTS["wiki.test.tokens"]


def test_other_texts_are_a_data_error(small) -> None:
    with pytest.raises(DataError, match="is not text in UTF-8"):
        small("wikitext2-bytes", **{"wiki.test.tokens": "caf\udce9"}).split("test")
    with pytest.raises(DataError, match="the files have 5 tokens, but the registry's `vocabulary` is 9"):
        small("wikitext2-words", **{"wiki.train.NONPRISTINE.txt": "a b c"}).split("test")
    known = registry.load_registry()
    odd = known.all_tasks["wikitext2-words"].model_copy(update={"layout": "letters"})
    with pytest.raises(RequestError, match="no layout"):
        task_data(odd, known.datasets["wikitext-2-altered"])


def test_a_network_of_words_writes_words(small, tmp_path) -> None:
    data = small("wikitext2-words")
    built = network(data.tokenizer, "words")
    text = generate(built, prompt="the cat", length=12, seed=1)
    words = WordTokenizer.split(text)
    assert words[:2] == ["the", "cat"]
    assert len(words) == 14
    assert set(words) <= set(data.tokenizer.words[2:])
    assert generate(built, length=3).count(" ") <= 3
    with pytest.raises(RequestError, match="'horse' is not in the vocabulary of"):
        generate(built, prompt="the horse")
    built.save_pretrained(tmp_path / "net")
    assert generate(load(str(tmp_path / "net"), device="cpu"), prompt="the cat", length=12, seed=1) == text
    assert 0 < measure(built, data.split("test"), "token", 500).loss < 10


def test_a_network_of_bytes_writes_text_and_reads_any(tmp_path) -> None:
    built = network(ByteTokenizer.every_byte(), "bytes")
    text = generate(built, prompt="Émile – ", length=40, seed=1)
    assert text.startswith("Émile – ")
    built.save_pretrained(tmp_path / "net")
    assert generate(load(str(tmp_path / "net"), device="cpu"), prompt="Émile – ", length=40, seed=1) == text


def test_words_are_written_behind_spaces_but_at_the_beginning_of_a_line() -> None:
    tokenizer = WordTokenizer([*RESERVED, WordTokenizer.END, "the", "cat"], 0)
    tokens = [3, 4, 2, 2, 3, 4]
    for after, text in (
        ("", "the cat\n\nthe cat"), ("a", " the cat\n\nthe cat"), ("a ", "the cat\n\nthe cat"), ("a\n", "the cat\n\nthe cat"),
    ):  # fmt: skip
        assert "".join(tokenizer.pieces(tokens, after)) == text
        assert tokenizer.split(after + text) == [*tokenizer.split(after), *(tokenizer.words[token] for token in tokens)]


def test_bytes_become_characters_when_they_are_complete() -> None:
    tokenizer = ByteTokenizer.every_byte()
    assert list(tokenizer.pieces(tokenizer.encode("aé–").tolist())) == ["a", "", "é", "", "", "–"]
    assert "".join(tokenizer.pieces([2 + 0xC3, 2 + 65])) == "\ufffdA"
    assert "".join(tokenizer.pieces([2 + 65, 2 + 0xC3])) == tokenizer.decode([2 + 65, 2 + 0xC3]) == "A\ufffd"
    assert len(tokenizer) == 258
    assert tokenizer.encode("\udcff").tolist() == [2 + 0xFF]  # a byte of the command line that is not UTF-8
    assert tokenizer.unknown("any text – at all") == []
    with pytest.raises(RequestError, match=r"half a character \(U\+D800\) at 1\."):
        tokenizer.encode("a\ud800")


def test_a_vocabulary_of_bytes_has_no_other_characters() -> None:
    with pytest.raises(RequestError, match="must not have characters beyond U\\+00FF; it has '€'"):
        ByteTokenizer([*RESERVED, "€", "a"], 0)


@pytest.mark.data
def test_the_real_texts_have_the_official_sizes() -> None:
    known = registry.load_registry()
    words, in_bytes = (
        task_data(known.all_tasks[f"wikitext2-{kind}"], known.datasets["wikitext-2-altered"])
        for kind in ("words", "bytes")
    )
    for name, tokens, size, file in (("validation", 217_646, 1_121_681, "valid"), ("test", 245_569, 1_256_449, "test")):
        assert int((words.split(name).targets != IGNORED).sum()) == tokens - 1
        assert int((in_bytes.split(name).targets != IGNORED).sum()) == size - 1
        content = gzip.decompress(Path(os.environ["RNNZOO_DATA"], "wikitext-2", f"wiki.{file}.tokens.gz").read_bytes())
        assert bytes((in_bytes.split(name).raw.flatten()[: size - 1] - 2).to(torch.uint8).tolist()) == content[:-1]
    assert int((words.split("train").targets != IGNORED).sum()) == 2_090_473 - 1
