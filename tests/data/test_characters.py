"""Tiny Shakespeare: nanoGPT's split, a state that goes on from window to window, and text drawn from a network."""

import gzip
import hashlib
import itertools
import json
import math
import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from small import clear_caches
from torch.nn import functional as F

from zoo import Architecture, Config, Embedding, Interface, build, generate, load, registry
from zoo.checkpoints import tensors
from zoo.checkpoints.tokenizer import RESERVED, CharacterTokenizer, Tokenizer, WordTokenizer
from zoo.data import task_data
from zoo.data.base import IGNORED
from zoo.data.characters import windows
from zoo.data.generation import stream_text
from zoo.data.inputs import read_example
from zoo.errors import CheckpointError, DataError, RegistryError, RequestError
from zoo.networks.recurrent import RecurrentNetwork
from zoo.registry.metrics import TARGETS
from zoo.training.evaluation import evaluate, measure, score
from zoo.training.state import FILE, State
from zoo.training.trainer import train
from zoo.utils import paths

TEXT = "".join(random for random in itertools.islice(itertools.cycle("to be, or not\nto be: that is"), 700))
NAME = "rnn-2x5-letters"
ZOO = """
papers: {}
datasets:
  letters: {title: letters, license: unlicense, citation: "-", folder: letters, files: [input.txt], validation: 60}
tasks:
  letters: {title: letters, family: characters, dataset: letters, layout: tenth, vocabulary: 16, outputs: 16, steps: 7,
    form: characters, readout: every, target: token, pipeline_tag: text-generation}
studies:
  letters:
    title: letters
    recipes:
      letters: {optimizer: {name: adam, lr: 0.01}, batch_size: 4, epochs: 3}
    models:
      rnn-2x5-letters: {cell: rnn, layers: 2, units: 5, task: letters, recipe: letters, dropout: 0.2,
        embedding: {size: 3, trainable: true}}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a zoo of one text."""
    home = tmp_path / "zoo"
    (home / "cards").mkdir(parents=True)
    (home / "registry.yaml").write_text(ZOO)
    monkeypatch.setattr(paths, "ROOT", home)
    clear_caches()
    return home


@pytest.fixture
def letters(home, tmp_path, monkeypatch):
    """The data of the zoo of one text."""
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "letters").mkdir(parents=True)
    (tmp_path / "data" / "letters" / "input.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    (home / "cards" / "lock.json").write_text(json.dumps({"datasets": {"letters": {"input.txt": digest}}}))
    clear_caches()
    known = registry.load_registry()
    return task_data(known.all_tasks["letters"], known.datasets["letters"])


def network(words="abc\n ", cell="lstm"):
    size = len(words) + 2
    config = Config(
        architecture=Architecture(cell=cell, layers=2, units=6, embedding=Embedding(size=4, trainable=True)),
        interface=Interface(vocabulary=size, outputs=size, steps=9, readout="every", form="characters"),
    )
    built = build(config, device="cpu", seed=1).eval()
    built.tokenizer = CharacterTokenizer(["<padding>", "<unknown>", *words], 9)
    return built


def test_the_splits_are_the_text_to_the_character(letters):
    assert [len(letters.part(name)) for name in ("train", "validation", "test")] == [570, 60, 70]
    assert letters.part("validation") + letters.part("train") + letters.part("test") == TEXT
    for name in ("train", "validation", "test"):
        split = letters.split(name)
        assert split.stream
        x, y, lengths = split.batch(torch.arange(len(split)))
        assert (x.shape[1], lengths) == (7, None)
        counted = y.flatten() != IGNORED
        assert letters.tokenizer.decode(x.flatten()[counted]) == letters.part(name)[:-1]
        assert letters.tokenizer.decode(y.flatten()[counted]) == letters.part(name)[1:]


def test_each_example_of_a_batch_goes_on_where_it_ended_in_the_batch_before(letters):
    split = letters.split("train")
    assert len(split) == 82
    batches = split.order(4, torch.Generator()).split(4)
    assert len(batches) == 20
    for before, after in itertools.pairwise(batches):
        assert torch.equal(after, before + 1)
    assert batches[0].tolist() == [0, 20, 40, 60]


def test_another_vocabulary_than_the_task_has_is_an_error(letters, home):
    clear_caches()
    (home / "registry.yaml").write_text(ZOO.replace("vocabulary: 16", "vocabulary: 17"))
    known = registry.load_registry()
    with pytest.raises(DataError, match="the files have 16 tokens, but the registry's `vocabulary` is 17"):
        _ = task_data(known.all_tasks["letters"], known.datasets["letters"]).tokenizer


@pytest.mark.parametrize(("change", "message"), [
    (("vocabulary: 16", "input: [16]"), "needs a 'vocabulary'"), (("dropout: 0.2", "bidirectional: sum"), "cannot predict"), (("readout: every", "readout: last"), "needs readout 'every'"),
])  # fmt: skip
def test_a_stream_is_read_at_every_step(home, change, message):
    clear_caches()
    (home / "registry.yaml").write_text(ZOO.replace(*change).replace(NAME, "bi" + NAME if "bi" in change[1] else NAME))
    with pytest.raises(RegistryError, match=message):
        registry.load_registry()


def test_a_window_carries_its_state_into_the_next(letters):
    """The loss of a split is that of the whole text, read at once."""
    built = build(registry.find(NAME).config, device="cpu", seed=3)
    letters.prepare_network(built)
    tokens, _ = letters.tokenizer(letters.part("test"))
    with torch.no_grad():
        logits = built.eval()(tokens[:, :-1])[0]
    expected = float(F.cross_entropy(logits, tokens[0, 1:]))
    measured = measure(built, letters.split("test"), "token", batch_size=500)
    assert measured.loss == measured.metric == pytest.approx(expected, rel=1e-5)
    assert TARGETS["token"].text(math.log(2)) == "0.693 nats (1.000 bits)"


def test_a_token_without_target_costs_nothing():
    logits, targets = torch.randn(2, 3, 5), torch.tensor([[1, IGNORED, 4], [IGNORED, 0, 2]])
    loss, metric, n = score("token", logits, targets)
    kept = targets != IGNORED
    assert (float(metric), float(n)) == (float(loss), 4)
    assert float(loss) == pytest.approx(float(F.cross_entropy(logits[kept], targets[kept], reduction="sum")))


def test_training_carries_the_state_and_goes_on_to_the_bit(letters, tmp_path):
    entry = registry.find(NAME)
    whole = train(entry, tmp_path / "whole", device="cpu")
    seen = []

    def stop(progress):
        seen.append(progress.step)
        if progress.step == 27:  # in the middle of the second epoch of 20 steps
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(entry, tmp_path / "parts", device="cpu", report=stop, save_seconds=0.0)
    state = State.read(tmp_path / "parts" / FILE)
    assert 20 < state.step <= 27
    assert [tuple(part.shape) for part in state.carried] == [(4, 5), (4, 5)]
    assert all(part.abs().sum() > 0 for part in state.carried)
    parts = train(entry, tmp_path / "parts", device="cpu")
    assert [(e.train_loss, e.validation_loss) for e in parts.history] == [
        (e.train_loss, e.validation_loss) for e in whole.history
    ]
    first, second = (tensors.read_tensors(tmp_path / run / tensors.FILE) for run in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_state_matters_in_training(letters, tmp_path, monkeypatch):
    """Without the state of the batch before, the first epoch has another loss."""
    entry = registry.find(NAME)
    carried = train(entry, tmp_path / "carried", device="cpu", overrides={"epochs": 1})
    monkeypatch.setattr(
        "zoo.data.base.Split.order", lambda self, size, generator: torch.arange(size * 20).reshape(size, 20).T.flatten()
    )
    again = train(entry, tmp_path / "again", device="cpu", overrides={"epochs": 1})
    assert again.history[0].train_loss == carried.history[0].train_loss
    from zoo.networks.recurrent import RecurrentNetwork

    resume = RecurrentNetwork.resume
    monkeypatch.setattr(
        RecurrentNetwork, "resume",
        lambda self, x, state, lengths=None: resume(self, x, self.initial_state(len(x)) if self.training else state, lengths=lengths),
    )  # fmt: skip
    forgetful = train(entry, tmp_path / "forgetful", device="cpu", overrides={"epochs": 1})
    assert forgetful.history[0].train_loss != carried.history[0].train_loss


def test_a_stream_has_no_other_runtime(letters, tmp_path):
    train(registry.find(NAME), tmp_path / "run", device="cpu", overrides={"epochs": 1})
    evaluation = evaluate(tmp_path / "run", device="cpu")
    assert (evaluation.metric, evaluation.n) == ("cross_entropy", 10)
    with pytest.raises(RequestError, match="one long text"):
        evaluate(tmp_path / "run", device="cpu", runtime="c")


def test_a_vocabulary_of_characters_survives_its_file(tmp_path):
    tokenizer = CharacterTokenizer(["<padding>", "<unknown>", *"\n ab<é"], 3)
    (tmp_path / "v.txt").write_bytes(tokenizer.content())
    again = CharacterTokenizer.read(tmp_path / "v.txt", 8, 3)
    assert again.words == tokenizer.words
    tokens, lengths = again("b\na <z")
    assert (tokens.tolist(), lengths.tolist()) == ([[5, 2, 4, 3, 6, 1]], [6])
    assert again.decode(tokens[0, :5]) == "b\na <"
    assert again.unknown("zaz\ny") == ["z", "y"]
    (tmp_path / "v.txt").write_text("<padding>\n<unknown>\nab\n")
    with pytest.raises(CheckpointError, match="must not have longer words"):
        CharacterTokenizer.read(tmp_path / "v.txt", 3, 3)
    assert Tokenizer.read(tmp_path / "v.txt", 3, 3).words[2] == "ab"


def test_the_fast_step_and_the_plain_one_write_the_same():
    built = network()
    fast = generate(built, prompt="ab c", length=60, seed=2)
    assert (len(fast), fast[:4]) == (64, "ab c")
    built.backend = "plain"
    assert generate(built, prompt="ab c", length=60, seed=2) == fast
    assert generate(built, prompt="ab c", length=60, seed=3) != fast
    assert set(fast) <= set("abc\n ")


def test_a_text_goes_on_as_the_network_expects():
    built = network()
    text = generate(built, prompt="abc", length=12, temperature=0)
    tokens, _ = built.tokenizer(text)
    with torch.no_grad():
        logits = built(tokens[:, :-1])[0]
    logits[:, :2] = -torch.inf
    assert built.tokenizer.decode(logits.argmax(-1)[2:]) == text[3:]
    assert generate(built, prompt="abc", length=12, top_k=1, temperature=3.0) == text


def test_a_character_comes_before_the_next_is_drawn(monkeypatch):
    built, steps = network(), []
    step = type(built).step
    monkeypatch.setattr(type(built), "step", lambda self, x, state: steps.append(x) or step(self, x, state))
    text = stream_text(built, "ab", length=3)
    assert steps == []
    next(text)  # from the outputs on the prompt, which is read at once
    assert steps == []
    next(text)
    assert len(steps) == 1


def test_drawing_does_not_change_the_mode_of_a_network():
    built = network().train()
    assert generate(built, prompt="ab", length=20, seed=1) == generate(built.eval(), prompt="ab", length=20, seed=1)
    built.train()
    next(stream_text(built, "ab"))
    assert built.training


@pytest.mark.parametrize(("options", "message"), [
    ({"prompt": "Abé"}, "'A', 'é' are not in the vocabulary of"), ({"length": 0}, "length and top_k"), ({"temperature": -1.0}, "temperature"),
    ({"seed": -1}, "seed must be an integer"), ({"seed": 0.5}, "seed must be an integer"),
])  # fmt: skip
def test_bad_requests(options, message):
    with pytest.raises(RequestError, match=message):
        generate(network(), **options)
    with pytest.raises(RequestError, match=message):
        stream_text(network(), **options)  # before anything is drawn


def test_the_command_prints_the_text(run, tmp_path):
    network().save_pretrained(tmp_path / "net")
    arguments = ("generate", str(tmp_path / "net"), "--prompt", "ab", "--length", "9", "--seed", "4")
    expected = generate(load(str(tmp_path / "net"), device="cpu"), prompt="ab", length=9, seed=4)
    assert run(*arguments)[:2] == (0, expected + "\n")
    assert json.loads(run(*arguments, "--json")[1]) == {
        "name": str(tmp_path / "net"), "prompt": "ab", "length": 9, "temperature": 1.0, "top_k": None, "seed": 4, "text": expected[2:],
    }  # fmt: skip
    code, _, err = run(*arguments, "--out", "a.mid")
    assert (code, "--out is for music" in err) == (2, True)
    code, _, err = run("generate", str(tmp_path / "net"), "--prompt", "xyz")
    assert (code, "'x', 'y', 'z' are not in the vocabulary of" in err) == (2, True)


@pytest.mark.data
def test_the_split_of_shakespeare_is_nanogpts():
    file = Path(os.environ["RNNZOO_DATA"], "tinyshakespeare", "input.txt.gz")
    text = gzip.decompress(file.read_bytes()).decode()
    known = registry.load_registry()
    data = task_data(known.all_tasks["shakespeare"], known.datasets["tinyshakespeare"])
    n = len(text)
    assert (
        data.part("validation") + data.part("train") == text[: int(n * 0.9)]
    )  # nanoGPT's data/shakespeare_char/prepare.py
    assert data.part("test") == text[int(n * 0.9) :]
    assert [len(data.part(name)) for name in ("train", "validation", "test")] == [953_854, 50_000, 111_540]
    assert data.tokenizer.words[2:] == tuple(sorted(set(text)))
    counts, trained = Counter(data.part("train")[1:]), len(data.part("train")) - 1
    constant = -sum(math.log(counts[c] / trained) for c in data.part("test")[1:]) / (len(data.part("test")) - 1)
    assert known.all_tasks["shakespeare"].guess == pytest.approx(constant, abs=1e-3)


def test_the_state_of_a_stream_begins_anew_with_each_epoch(letters, tmp_path, monkeypatch):
    fresh, resume = [], RecurrentNetwork.resume

    def noted(self, x, state, lengths=None):
        if self.training:
            fresh.append(not any(part.any() for layer in state for part in layer))
        return resume(self, x, state, lengths=lengths)

    monkeypatch.setattr(RecurrentNetwork, "resume", noted)
    train(registry.find(NAME), tmp_path, device="cpu", overrides={"epochs": 2})
    assert [step for step, is_fresh in enumerate(fresh) if is_fresh] == [0, 20]


def test_a_file_is_read_to_the_end_of_its_last_line_and_in_known_characters():
    for content, text in ((b"ab\nba\n", "ab\nba"), (b"ab\r\nba", "ab\nba"), (b"\n", "\n"), (b" \n\n", " \n")):
        assert torch.equal(read_example(network(), content)[0], network().tokenizer(text)[0])
    for content, message in (
        (b"", "this file is empty"), (b"abz\nq", "'z', 'q' are not in the vocabulary of"), ("ä".encode("latin-1"), "not UTF-8"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=message):
            read_example(network(), content)


def test_reserved_words_are_not_known_words():
    tokenizer = WordTokenizer([*RESERVED, "the"], 0)
    assert tokenizer.unknown(f"the {RESERVED[0]} {RESERVED[1]}") == list(RESERVED)
    assert WordTokenizer.learn([["the", *RESERVED, "the"]], 9, 9).words == tokenizer.words


def test_many_unknown_characters_are_counted():
    with pytest.raises(RequestError, match=r"^'d', 'e', .*'m' and 13 more are not in the vocabulary of"):
        generate(network(), prompt="abcdefghijklmnopqrstuvwxyz")


def test_tokens_beyond_int16_are_int32():
    words = [*RESERVED, *map(str, range(2**15 - 2))]
    assert WordTokenizer(words, 9).encode("32765").tolist() == [2**15 - 1]
    larger = WordTokenizer([*words, "x"], 9)
    assert larger.encode("x 0").tolist() == [2**15, 2]
    assert windows(larger.encode("x 0 x"), 2, {}).raw.tolist() == [[2**15, 2]]


def test_a_text_has_the_stated_length(run, tmp_path) -> None:
    network().save_pretrained(tmp_path / "net")
    code, out, _ = run("generate", str(tmp_path / "net"), "--prompt", "ab", "--json")
    assert (code, len(json.loads(out)["text"])) == (0, 500)
