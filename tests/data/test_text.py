"""Text: tokens and back, what a network does with them, the words that travel with it, and the datasets of sentences."""

import copy
import csv
import gzip
import hashlib
import io

import pytest
import torch
from helpers import config, needs_scan, same

from zoo import registry
from zoo.cells import CELLS
from zoo.checkpoints import tokenizer
from zoo.checkpoints.references import Reference
from zoo.checkpoints.sources import resolve
from zoo.checkpoints.tokenizer import FILE, RESERVED, Tokenizer, split_words
from zoo.data import task_data, text
from zoo.data.text import Example
from zoo.errors import CheckpointError, DataError, RegistryError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.networks.layer import LazyEmbedding
from zoo.networks.sizes import counts, parameters
from zoo.publishing import release
from zoo.registry.schema import Config, Task
from zoo.training.evaluation import evaluate
from zoo.training.trainer import train

CPU = torch.device("cpu")
NAME = "gru-1x8-spooky"
EMBEDDING = {"size": 4, "pretrained": "glove-6b-100"}


def tokens(cell="gru", vocabulary=9, embedding=None, **fields):
    """A small network of tokens, in double precision and eval mode."""
    spec = {"cell": cell, "layers": 2, "units": 3, "embedding": {"size": 5, **(embedding or {})}, **fields}
    shapes = {"vocabulary": vocabulary, "steps": 6, "outputs": 4, "readout": "last"}
    made = Config.model_validate({"name": "small", "task": "none", "architecture": spec, "interface": shapes})
    return build(made, device="cpu", dtype=torch.float64).eval()


X = torch.tensor([[3, 1, 8, 2, 0, 0], [5, 5, 2, 1, 4, 7]])
LENGTHS = torch.tensor([4, 6])


# words and tokens


def test_words_are_lower_case_letters():
    assert split_words("Don't PANIC, it’s 42 o'clock -- déjà_vu!") == ["dont", "panic", "its", "oclock", "déjà", "vu"]
    assert split_words("1234 ...") == []


def test_the_most_frequent_words_get_tokens():
    tokenizer = Tokenizer.learn([["b", "a", "c"], ["b", "c"], ["b", "d"]], 5, 4)
    assert tokenizer.words == (*RESERVED, "b", "c", "a")  # a and d are equally frequent
    x, lengths = tokenizer(["A b? C", "d", "", "b b b b b b"])
    assert x.tolist() == [[4, 2, 3, 0], [1, 0, 0, 0], [1, 0, 0, 0], [2, 2, 2, 2]]
    assert lengths.tolist() == [3, 1, 1, 4]
    assert tokenizer.decode(x[0]) == "a b c"
    assert tokenizer("a")[0].tolist() == [[4]]
    assert len(tokenizer) == 5
    with pytest.raises(RequestError, match="no texts"):
        tokenizer([])
    assert Tokenizer.learn([["b", "a", "a"]], 1, 5).words == RESERVED
    for odd in (b"x", 3, ["a", 3]):
        with pytest.raises(RequestError, match="What a tokenizer reads must be a string or a list of strings"):
            tokenizer(odd)


@pytest.mark.parametrize("words", [("a", "b"), (*RESERVED, "a", "a"), (*RESERVED[::-1], "a"), ()])
def test_an_odd_vocabulary_is_refused(words):
    with pytest.raises(RequestError, match="must begin with <padding> and <unknown>"):
        Tokenizer(words, 5)


def test_a_vocabulary_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    (tmp_path / FILE).write_bytes(Tokenizer([*RESERVED, "the"], 7).content())
    monkeypatch.setattr(tokenizer, "MAX_BYTES", 10)
    with pytest.raises(CheckpointError, match="it is larger than 10 bytes"):
        Tokenizer.read(tmp_path / FILE, 3, 7)


def test_the_neutral_word():
    assert Tokenizer([*RESERVED, "a", "the"], 7).neutral_token == 3
    assert Tokenizer([*RESERVED, "a"], 7).neutral_token == 1


def test_a_vocabulary_comes_back_from_its_file(tmp_path):
    tokenizer = Tokenizer([*RESERVED, "the", "déjà"], 7)
    path = tmp_path / FILE
    path.write_bytes(tokenizer.content())
    assert Tokenizer.read(path, 4, 7).words == tokenizer.words
    for content, problem in {
        b"": "has 0 words instead of 4",
        tokenizer.content()[:-1]: "has 3 words",
        b"a\nb\nc\nd\n": "not a vocabulary",
        b"<padding>\n<unknown>\n\xff\nx\n": "not a vocabulary",
    }.items():
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=problem):
            Tokenizer.read(path, 4, 7)
    with pytest.raises(CheckpointError, match="cannot be read"):
        Tokenizer.read(tmp_path / "nowhere.txt", 4, 7)


# networks of tokens


@pytest.mark.parametrize("cell", CELLS)
def test_a_token_is_its_vector(cell):
    net = tokens(cell)
    dense = build(
        config(cell, inputs=(5,)).model_copy(update={"name": "dense"}), device="cpu", dtype=torch.float64
    ).eval()
    dense.load_state_dict({k: v for k, v in net.state_dict().items() if k != "embedding.weight"})
    vectors = net.embedding.weight[X].detach()
    same(net(X, LENGTHS), dense(vectors, LENGTHS))
    same(net(X), dense(vectors))
    same(net.features(X)[0], dense.features(vectors)[0])
    state = dense_state = None
    for t in range(6):
        y, state = net.step(X[:, t], state)
        expected, dense_state = dense.step(vectors[:, t], dense_state)
        same(y, expected)
    same(y, net(X))


@needs_scan
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("ways", [None, "concat"])
@pytest.mark.parametrize("trainable", [False, True])
def test_the_fused_scan_looks_vectors_up(trainable, ways, lengths, monkeypatch):
    net = tokens(embedding={"trainable": trainable}, bidirectional=ways).float().train()
    net.backend = "fused"
    exact = copy.deepcopy(net).double()
    exact.backend = "plain"
    answers = []
    for network in (net, exact):
        with monkeypatch.context() as patch:
            if network is net:
                patch.setattr(LazyEmbedding, "vectors", lambda rows: pytest.fail("all vectors were looked up"))
            logits = network(X, lengths)
        loss = logits.square().sum()
        loss.backward()
        answers.append([t.double() for t in (logits, *(p.grad for p in network.parameters() if p.requires_grad))])
    same(*answers, tolerance=1e-5)
    assert not trainable or not net.embedding.weight.grad[0].any()

    # gradients of gradients, which go by the plain scan
    used = net.embedding.weight if trainable else net.layers[0].forward_direction.input.weight
    twice = []
    for network in (net, exact):
        weight = dict(network.named_parameters())[next(n for n, p in net.named_parameters() if p is used)]
        (slope,) = torch.autograd.grad(network(X, lengths).square().sum(), weight, create_graph=True)
        twice.append(torch.autograd.grad(slope.square().sum(), weight)[0].double())
    same(*twice, tolerance=1e-4)


@torch.no_grad()
def test_a_table_of_fewer_vectors():
    net = tokens().float()
    net.embedding.weight = torch.nn.Parameter(net.embedding.weight[:5], requires_grad=False)
    with pytest.raises(RequestError, match="tokens from 0 to 4"):
        net(X)


@needs_scan
def test_tokens_that_change_before_the_backward_pass_are_noticed():
    net, x = tokens(embedding={"trainable": True}).float().train(), X[:1].clone()
    loss = net(x).sum()
    x.fill_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_vectors_are_looked_up_again_when_states_are_recomputed():
    slopes = []
    for every, times in ((None, 1), (2, 2 * 3)):
        net, calls = tokens(embedding={"trainable": True}).train(), []
        net.embedding.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        net.checkpoint_every = every
        net(X, LENGTHS).square().sum().backward()
        slopes.append(net.embedding.weight.grad)
        assert len(calls) == times
    same(*slopes)


@needs_scan
@torch.no_grad()
def test_an_embedding_that_does_more_is_asked():
    net = tokens().float()
    plain = net(X)
    net.embedding.register_forward_hook(lambda module, given, out: out * 0)
    assert not torch.allclose(net(X), plain)
    net.embedding._forward_hooks.clear()
    same(net(X), plain, 0)
    net.embedding.max_norm = 0.1
    assert not torch.allclose(net(X), plain)


@pytest.mark.parametrize("ways", [None, "sum"])
def test_what_lies_beyond_the_end_changes_nothing(ways):
    net = tokens(bidirectional=ways)
    other = X.clone()
    other[0, 4:] = torch.tensor([-100, 77])  # no tokens at all
    same(net(X, LENGTHS), net(other, LENGTHS), 0)
    same(net(X, LENGTHS)[:1], net(X[:1, :4]))


def test_frozen_vectors_are_no_parameters_but_are_saved(tmp_path):
    frozen, free = tokens(), tokens(embedding={"trainable": True})
    assert parameters(free) - parameters(frozen) == 9 * 5
    assert "embedding.weight" in frozen.state_dict()
    assert not frozen.embedding.weight[0].any()
    for net, moves in ((frozen, False), (free, True)):
        net.train()(X, LENGTHS).sum().backward()
        assert (net.embedding.weight.grad is not None) == moves
    assert not free.embedding.weight.grad[0].any()
    net = tokens().float()
    net.tokenizer = Tokenizer([*RESERVED, *"abcdefg"], 6)
    loading.save(net, tmp_path)
    back = loading.load(tmp_path, device="cpu")
    same(back(X, LENGTHS), net(X, LENGTHS), 0)
    assert back.tokenizer.words == net.tokenizer.words
    (tmp_path / FILE).write_bytes(Tokenizer([*RESERVED, "a"], 6).content())
    with pytest.raises(CheckpointError, match="has 3 words instead of 9"):
        loading.load(tmp_path, device="cpu")
    (tmp_path / FILE).unlink()
    assert loading.load(tmp_path, device="cpu").tokenizer is None


def test_the_same_seed_gives_the_same_vectors():
    assert torch.equal(tokens().embedding.weight, tokens().embedding.weight)
    assert build("gru-1x200-spooky", device="meta").embedding.weight.is_meta
    assert counts("gru-1x200-spooky").parameters == 3 * (100 * 200 + 200 * 200 + 200) + 3 * 200 + 3


@pytest.mark.parametrize(
    ("x", "problem"),
    [
        (X.double(), "takes tokens, torch.int64 or torch.int32; got torch.float64"),
        (X.bool(), "takes tokens"),
        (X + 1, "takes tokens from 0 to 8"),
        (X - 1, "takes tokens from 0 to 8"),
        (X[:, :, None], r"takes x of shape \(batch, time"),
        (X[:0], r"takes x of shape \(batch, time"),
    ],
)
def test_what_are_no_tokens_is_refused(x, problem):
    with pytest.raises(RequestError, match=problem):
        tokens()(x)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"embedding": None}, "a task of tokens needs an 'embedding'"),
        ({"standardize": True}, "'standardize' is for numbers"),
        ({"kernel": 3}, "so it cannot have a 'kernel'"),
        ({"embedding": {"size": 0}}, "must be at least 1"),
    ],
)
def test_an_architecture_that_does_not_fit_tokens_is_refused(change, problem):
    made = tokens().config.model_dump()
    made["architecture"].update(change)
    with pytest.raises(ValueError, match=problem):
        Config.model_validate(made)


@pytest.mark.parametrize("change", [{"vocabulary": None}, {"input": (2,)}])
def test_a_task_has_numbers_or_tokens(change):
    with pytest.raises(ValueError, match="either numbers"):
        Task.model_validate({**registry.load_registry().all_tasks["spooky"].model_dump(), **change})


# the datasets, as they are published, but small

SENTENCES = {
    "EAP": "The raven sat upon the {} bust",
    "HPL": "The old ones wait in the {} deep",
    "MWS": "My {} monster wept",
}


def spooky():
    """A train.csv in Kaggle's layout."""
    words = ["dark", "pale", "cold", "lonely", "dreadful"]
    rows = [(f"id{i}", f'{text.format(words[i % 5])}, "{chr(97 + i % 26)}{chr(97 + i // 26)}x"', author)
            for i in range(30) for author, text in SENTENCES.items()]  # fmt: skip
    return table(["id", "text", "author"], rows)


def table(header, rows):
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([header, *rows])
    return text.getvalue().encode()


def jigsaw():
    """Four parts in their layouts, one with many toxic comments; some comments are in two of them."""

    def comment(part, i, long):
        return " ".join(
            [f"{'you' if i % 3 else 'idiot'} {part}{chr(97 + i % 26)}{chr(97 + i // 26)} the"]
            + ["word"] * (100 if long else 3)
        )

    rest = ["0"] * 5
    parts = {}
    for part, toxic_of in (
        ("A_first3000_raw", 10),
        ("B_2000_raw", 5),
        ("C_5000_lowercased_binary", 8),
        ("D_furkan_cleaned", 2),
    ):
        rows = [(comment(part[0].lower(), i, i % 3 == 0), "1" if i % toxic_of == 0 else "0", *rest) for i in range(80)]
        rows.append(("the same, in all parts", "0", *rest))
        parts[f"{part}.csv"] = table(
            ["comment_text", "toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"], rows
        )
    return parts  # fmt: skip


def glove():
    words = ["the", "raven", "old", "monster", "wept", "zzz"]
    return "".join(
        f"{word} {' '.join(str((i + 1) * k / 10) for k in range(1, 5))}\n" for i, word in enumerate(words)
    ).encode()


CONTENT = {"spooky": {"train.csv": spooky()}, "jigsaw-parts": jigsaw(), "glove-6b-100": {"glove.txt": glove()}}


def pinned(key, **changes):
    """The registry's dataset with the digests of the small files of this module."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT[key].items()}
    held = {"spooky": 20, "jigsaw-parts": 80}.get(key)
    sizes = {"validation": held, "test": held} if held else {}
    return (
        registry.load_registry()
        .datasets[key]
        .model_copy(update={"files": tuple(digests), "sha256": digests, **sizes} | changes)
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The small files below RNNZOO_DATA, one of them gzipped."""
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    for key, content in CONTENT.items():
        place = tmp_path / "data" / registry.load_registry().datasets[key].folder
        place.mkdir(parents=True)
        for name, each in content.items():
            (place / f"{name}.gz").write_bytes(gzip.compress(each)) if name == "train.csv" else (
                place / name
            ).write_bytes(each)
    return tmp_path / "data"


def task(name, **changes):
    return registry.load_registry().all_tasks[name].model_copy(update={"vocabulary": 30, "steps": 12} | changes)


@pytest.mark.usefixtures("folder")
def test_spooky_authors():
    data = task_data(task("spooky"), pinned("spooky"))
    splits = {name: data.split(name) for name in ("train", "validation", "test")}
    assert {name: len(split) for name, split in splits.items()} == {"train": 50, "validation": 20, "test": 20}
    found = {}
    for split in splits.values():
        x, y, lengths = split.batch(torch.arange(len(split)), CPU)
        assert x.dtype == torch.int64
        assert x.shape[1] == lengths.max() <= 12
        assert ((x != 0).sum(1) == lengths).all()
        for row, label in zip(x, y, strict=True):
            found.setdefault(int(label), set()).add(data.tokenizer.decode(row).split()[1])
    assert found[0] == {"raven"}
    assert found[1] == {"old"}
    assert len(data.tokenizer) == 30
    assert data.tokenizer.words[2] == "the"


@pytest.mark.usefixtures("folder")
def test_a_batch_is_no_longer_than_its_longest_text():
    split = task_data(task("spooky"), pinned("spooky")).split("train")
    shortest = int(split.lengths.argmin())
    x, _, lengths = split.batch(torch.tensor([shortest]), CPU)
    assert x.shape == (1, lengths[0])
    assert x.shape[1] < split.raw.shape[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("layout", "least", "most"), [("balanced", 1, 200), ("balanced-long", 91, 200), ("balanced-short", 1, 9)]
)
def test_toxic_comments_are_balanced_in_every_part(layout, least, most):
    data = task_data(task("toxic-parts", layout=layout, steps=200, vocabulary=400), pinned("jigsaw-parts"))
    keys = []
    for name in ("train", "validation", "test"):
        split = data.split(name)
        x, y, lengths = split.batch(torch.arange(len(split)), CPU)
        parts = [data.tokenizer.decode(row).split()[1] for row in x]
        if name == "train":
            for letter in "abcd":
                mine = [int(label) for part, label in zip(parts, y, strict=True) if part[0] == letter]
                assert sum(mine) * 2 == len(mine)
        assert y.sum() * 2 == len(y)
        assert least <= lengths.min() <= lengths.max() <= most
        keys += [" ".join(e.words) for e in data._splits[name]]
    assert len(keys) == len(set(keys)) > 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("layout", "left"), [("diluted", 67), ("late", 75)])  # 30 % of 95 is 28.5
def test_the_last_words_are_replaced(layout, left):
    dataset = pinned("jigsaw-parts", validation=1, test=1)
    plain = task_data(task("toxic-parts", layout="balanced-long", steps=95, vocabulary=400), dataset)
    diluted = task_data(task("toxic-parts", layout=f"balanced-long-{layout}", steps=95, vocabulary=400), dataset)
    a, b = plain.split("train"), diluted.split("train")
    assert torch.equal(a.targets, b.targets)
    x, _, lengths = a.batch(torch.arange(len(a)), CPU)
    z, _, _ = b.batch(torch.arange(len(b)), CPU)
    assert lengths.tolist() == [95] * len(a)
    assert torch.equal(x[:, :left], z[:, :left])
    assert (z[:, left:] == diluted.tokenizer.tokens["the"]).all()


@pytest.mark.parametrize(("name", "key"), [("spooky", "spooky"), ("toxic-parts", "jigsaw-parts")])
def test_missing_and_other_files_are_data_errors(folder, name, key):
    place = folder / registry.load_registry().datasets[key].folder
    path = min(place.iterdir())
    path.write_bytes(gzip.compress(b"something else") if path.suffix == ".gz" else b"something else")
    with pytest.raises(DataError, match="sha256 differs"):
        task_data(task(name), pinned(key)).split("test")
    path.unlink()
    with pytest.raises(DataError, match=r"was not found in .*https://www\.kaggle\.com.*set RNNZOO_DATA") as caught:
        task_data(task(name), pinned(key)).split("test")
    assert "\n" not in str(caught.value)


def test_an_unknown_layout_is_refused():
    for name, key in (("spooky", "spooky"), ("toxic-parts", "jigsaw-parts")):
        with pytest.raises(RequestError, match="no layout 'words'"):
            task_data(task(name, layout="words"), pinned(key))


def test_words_are_learnt_from_the_training_split_alone(folder):
    data = task_data(task("spooky", vocabulary=300), pinned("spooky"))
    seen = {data.tokenizer.words[token] for row in data.split("train").raw for token in row.tolist()}
    assert {word for word in data.tokenizer.words if word.isalpha()} == {word for word in seen if word.isalpha()}
    assert (data.split("test").raw == tokenizer.UNKNOWN).any()


@pytest.fixture
def text_zoo(folder, small_zoo, monkeypatch):
    """A zoo whose one model reads sentences, with its pretrained vectors, and what it is adopted into."""
    root = small_zoo({"epochs": 3, "batch_size": 10}, cell="gru", task="spooky", embedding=EMBEDDING)
    monkeypatch.setenv("RNNZOO_DATA", str(folder))
    everything = registry.load_registry()
    everything.datasets.update({key: pinned(key) for key in CONTENT})
    everything.all_tasks["spooky"] = task("spooky")
    return root


@pytest.mark.usefixtures("text_zoo")
def test_training_starts_from_the_vectors_and_keeps_the_words(tmp_path):
    out = tmp_path / "run"
    found = train(registry.find(NAME), out, device="cpu")
    assert found.parameters == 3 * (4 * 8 + 8 * 8 + 8) + 3 * 8 + 3
    network = loading.load(out, device="cpu")
    at = network.tokenizer.tokens
    assert network.embedding.weight[at["raven"]].tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert network.embedding.weight[at["the"]].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert network.embedding.weight[at["dark"]].abs().sum() > 0
    assert not network.embedding.weight[0].any()
    measured = evaluate(out, device="cpu")
    assert (measured.metric, measured.n) == ("accuracy", 20)
    logits = network(*network.tokenizer(["The raven, alone", "Unheard-of!"]))
    assert logits.shape == (2, 3)


def test_vectors_of_tokens_start_as_standard_normal_values():
    vectors = tokens(vocabulary=2000, embedding={"size": 50}).embedding.weight[1:]
    assert vectors.std().item() == pytest.approx(1.0, abs=0.02)
    assert vectors.mean().item() == pytest.approx(0.0, abs=0.02)


@pytest.mark.usefixtures("text_zoo")
def test_words_without_a_vector_deviate_as_those_with_one_do():
    entry = registry.find(NAME)
    network = build(entry.config, device="cpu")
    drawn = network.embedding.weight.detach().clone()
    task_data(entry.task, entry.dataset).prepare_network(network)
    at, found = network.tokenizer.tokens, network.embedding.weight
    known = found[[at[word] for word in ("the", "raven", "old", "monster", "wept") if word in at]]
    torch.testing.assert_close(found[at["dark"]], drawn[at["dark"]] * known.std())


@pytest.mark.usefixtures("text_zoo")
def test_other_words_are_noticed(tmp_path):
    out = tmp_path / "run"
    train(registry.find(NAME), out, device="cpu", overrides={"epochs": 1})
    words = (out / FILE).read_text().splitlines()
    (out / FILE).write_text("".join(f"{w}\n" for w in [*words[:2], *words[:1:-1]]))
    with pytest.raises(RequestError, match="does not have the vocabulary of its task, spooky"):
        evaluate(out, device="cpu")


def test_the_words_are_adopted_and_pinned(text_zoo, tmp_path):
    out = tmp_path / "run"
    train(registry.find(NAME), out, device="cpu", overrides={"epochs": 1})
    kept = (out / FILE).read_bytes()
    (out / FILE).unlink()
    with pytest.raises(CheckpointError, match=r"no vocabulary\.txt"):
        release.release(out)
    (out / FILE).write_bytes(kept)
    assert release.release(out) == NAME
    text = (text_zoo / "cards" / "lock.json").read_text()
    assert hashlib.sha256(kept).hexdigest() in text
    registry.load_registry().all_tasks["spooky"] = task("spooky")
    assert set(resolve(Reference.parse(NAME)).files) == {"check.safetensors", "config.json", "model.safetensors", FILE}
    assert loading.load(NAME, device="cpu").tokenizer.content() == kept


def test_vectors_that_are_not_in_the_registry_are_refused(small_zoo):
    small_zoo(cell="gru", task="spooky", embedding={"size": 4, "pretrained": "glove-7b"})
    with pytest.raises(RegistryError, match="glove-7b"):
        registry.load_registry()


@pytest.mark.data
def test_the_real_sentences():
    sizes = {
        "spooky": (15_570, 2_000, 2_000),
        "toxic-parts": (8_320, 1_096, 1_744),
        "toxic-parts-long": (900, 114, 200),
    }
    known = registry.load_registry()
    for name, expected in sizes.items():
        data = task_data(known.all_tasks[name])
        assert tuple(len(data.split(part)) for part in ("train", "validation", "test")) == expected
        assert len(data.tokenizer) == 5_000
    network = build("gru-1x200-spooky", device="cpu")
    data = task_data(known.all_tasks["spooky"], known.datasets["spooky"])
    data.prepare_network(network)
    the = network.embedding.weight[data.tokenizer.tokens["the"]]
    assert the[:3].tolist() == pytest.approx([-0.038194, -0.24487, 0.72812])


@pytest.mark.data
def test_what_the_registry_says_of_comments_that_are_in_two_parts():
    """The numbers of the data's title and caveat."""
    known = registry.load_registry()
    found, data = {}, known.datasets["jigsaw-parts"]
    for kind in ("", "-diluted", "-long", "-late", "-short"):
        reader = task_data(known.all_tasks[f"toxic-parts{kind}"], data)
        trained, tested = ([tuple(row.tolist()) for row in reader.split(name).raw] for name in ("train", "test"))
        seen = set(trained)
        found[kind] = sum(row in seen for row in tested), len(tested)
    assert found == {"": (14, 1744), "-diluted": (7, 200), "-long": (6, 200), "-late": (6, 200), "-short": (0, 286)}
    assert len(reader.examples()) == 18_883
    for words in ("14 of the 1,744", "7 of the 200 of toxic-parts-diluted", "6 of the 200 of toxic-parts-long and"):
        assert words in data.caveat
    assert "18,883 comments, distinct by their words" in data.title


def test_reserved_words_have_no_pretrained_vector(monkeypatch):
    monkeypatch.setattr(text, "read_verified", lambda dataset, name: b"<padding> 9 9\n<unknown> 9 9\nthe 1 2\n")
    dataset = registry.load_registry().datasets["glove-6b-100"]
    assert list(text.vectors(dataset, [*RESERVED, "the"], 2)) == ["the"]


@pytest.mark.parametrize(("layout", "kept"), [("balanced-short", {1, 9}), ("balanced-long", {91, 92})])
def test_layouts_take_comments_of_the_stated_lengths(layout, kept):
    data = task_data(task("toxic-parts", layout=layout), pinned("jigsaw-parts"))
    examples = [Example(["word"] * n, label, "part") for n in (1, 9, 10, 90, 91, 92) for label in (0, 1)]
    assert {len(e.words) for e in data.select(examples)} == kept


def test_of_equally_frequent_words_the_first_in_the_alphabet_are_taken():
    assert Tokenizer.learn([["b", "d", "c"], ["b", "c"], ["b", "a"]], 5, 4).words == (*RESERVED, "b", "c", "a")
