"""The bAbI tasks as they are published, and the networks of three stacks that answer them."""

import gzip
import hashlib
import io
import tarfile

import pytest
import reference
import torch
from helpers import needs_scan, same

from zoo import registry
from zoo.checkpoints import results
from zoo.checkpoints.tokenizer import RESERVED, Tokenizer
from zoo.data import task_data
from zoo.data.babi import questions
from zoo.errors import DataError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.networks.sizes import counts, multiply_adds, parameters
from zoo.networks.story_reader import StoryReader
from zoo.publishing import cards
from zoo.registry.schema import Config, Task
from zoo.training.evaluation import evaluate
from zoo.training.trainer import train

CPU = torch.device("cpu")
NAME = "rin-1x8-babi-02"
CELLS = ("rin", "irnn", "lstm", "goru")

# tokens of a story, its question and padding, and how many of them are the story's and the question's
X = torch.tensor([[3, 1, 8, 2, 0, 0], [5, 5, 2, 1, 4, 7], [6, 4, 0, 0, 0, 0]])
LENGTHS = torch.tensor([[3, 1], [2, 4], [1, 1]])


def reader(cell="rin", **fields):
    """A small reader with random weights, in double precision and eval mode."""
    spec = {"cell": cell, "layers": 2, "units": 4, "embedding": {"size": 5, "trainable": True}, **fields}
    shapes = {"vocabulary": 9, "steps": 6, "outputs": 9, "readout": "last", "form": "question"}
    made = Config.model_validate({"name": "small", "task": "none", "architecture": spec, "interface": shapes})
    net = build(made, device="cpu", dtype=torch.float64)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(0.5 * torch.randn(p.shape, generator=generator))
        net.embedding.weight[0] = 0.0
    return net.eval()


def stack_of(net, prefix, cell, x):
    """Outputs of two layers for x: (batch, time, features), by the equations of tests/reference.py."""
    own = {k.removeprefix(prefix): v for k, v in net.state_dict().items() if k.startswith(f"{prefix}layers")}
    for layer in range(2):
        start = f"layers.{layer}.directions.0."
        weights = {k.removeprefix(start): v for k, v in own.items() if k.startswith(start)}
        zeros = tuple(x.new_zeros(len(x), 4) for _ in reference.STATES.get(cell, ("units",)))
        x, _ = reference.run(cell, weights, x, zeros)
    return x


# the network


@pytest.mark.parametrize("cell", ["rin", "irnn", "lstm"])
def test_it_is_the_composition_of_three_stacks(cell):
    net = reader(cell)
    logits = net(X, LENGTHS)
    for row, (story, question) in enumerate(LENGTHS.tolist()):
        words = net.embedding.weight[X[row : row + 1]].detach()
        told = stack_of(net, "", cell, words[:, :story])
        asked = stack_of(net, "question.", cell, words[:, story : story + question])
        answer = stack_of(net, "decoder.", cell, torch.cat([told, asked], 1))[:, -1]
        same(logits[row : row + 1], answer @ net.head.weight.T + net.head.bias)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("readout", ["last", "mean"])
def test_padding_changes_nothing(cell, readout):
    net = reader(cell)
    net.config = net.config.model_copy(update={"interface": net.interface.model_copy(update={"readout": readout})})
    other = X.clone()
    other[0, 4:] = torch.tensor([-100, 77])
    longer = torch.cat([X, torch.full((3, 4), 5)], 1)
    expected = net(X, LENGTHS)
    same(net(other, LENGTHS), expected, 0)
    same(net(longer, LENGTHS), expected, 0)
    for row, total in enumerate(LENGTHS.sum(1).tolist()):
        same(net(X[row : row + 1, :total], LENGTHS[row : row + 1]), expected[row : row + 1])


@pytest.mark.parametrize("readout", ["last", "mean", "every"])
def test_what_is_pooled_is_what_the_head_reads(readout):
    net = reader("rin")
    net.config = net.config.model_copy(update={"interface": net.interface.model_copy(update={"readout": readout})})
    found = net.pooled(X, LENGTHS)
    logits = net.head(found)
    if readout == "every":
        beyond = torch.arange(found.shape[1]) >= LENGTHS.sum(1, keepdim=True)
        assert beyond.any()
        assert not found[beyond].any()
        logits[beyond] = 0
    same(net(X, LENGTHS), logits, 0)


def test_what_is_said_where_matters():
    net = reader()
    expected = net(X, LENGTHS)
    moved = net(X, torch.tensor([[2, 2], [2, 4], [1, 1]]))  # a word of the story is asked instead
    assert (moved[0] - expected[0]).abs().max() > 1e-6
    same(moved[1:], expected[1:])


@needs_scan
@pytest.mark.parametrize("cell", ["rin", "lstm"])
def test_the_fused_scan_equals_the_plain_one(cell):
    net = reader(cell).float()
    net.backend = "plain"
    expected = net(X, LENGTHS)
    net.backend = "fused"
    same(net(X, LENGTHS), expected, 1e-5)
    net.backend = "nonsense"
    with pytest.raises(RequestError, match="nonsense"):
        net(X, LENGTHS)


def test_gradients_reach_every_parameter():
    net = reader().train()
    net(X, LENGTHS).square().sum().backward()
    assert [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()] == []
    assert not net.embedding.weight.grad[0].any()
    whole = net.embedding.weight.grad.clone()
    net.zero_grad()
    net.tbptt_steps = 1
    net(X, LENGTHS).square().sum().backward()
    assert not torch.allclose(net.embedding.weight.grad, whole)


def test_size():
    """Three stacks of one layer, of which two read vectors of 200 and one outputs of 100; words, and a head for each."""
    encoder, decoder = 100 * 200 + 100 * 100 + 100, 2 * 100 * 100 + 100
    size = counts("rin-1x100-babi-01")
    assert size.parameters == 21 * 200 + 2 * encoder + decoder + 21 * 100 + 21
    assert size.multiply_adds == 59 * (30_000 + 20_000) + 2_100
    assert counts("lstm-1x100-babi-01").parameters == 21 * 200 + 4 * (2 * encoder + decoder) + 21 * 100 + 21
    small = reader()
    assert isinstance(small, StoryReader)
    assert parameters(small) == 9 * 5 + 2 * (4 * 9 + 4 + 4 * 8 + 4) + 2 * (4 * 8 + 4) + 9 * 5
    assert multiply_adds(small, 3) == 3 * (4 * 9 + 4 * 8 + 2 * 4 * 8) + 4 * 9


@pytest.mark.parametrize(
    ("x", "lengths", "problem"),
    [
        (X, None, r"takes lengths of shape \(3, 2\)"),
        (X, LENGTHS.sum(1), r"takes lengths of shape \(3, 2\)"),
        (X, LENGTHS.double(), r"takes lengths of shape \(3, 2\)"),
        (X, LENGTHS - 1, "at least 1 each"),
        (X, LENGTHS + 1, "at most 6 together"),
        (X.double(), LENGTHS, "takes tokens"),
        (X + 1, LENGTHS, "takes tokens from 0 to 8"),
        (X[:, :, None], LENGTHS, r"takes x of shape \(batch, time"),
    ],
)
def test_what_is_no_story_and_question_is_refused(x, lengths, problem):
    with pytest.raises(RequestError, match=problem):
        reader()(x, lengths)


def test_what_makes_no_sense_of_a_story_is_not_there():
    for name in ("step", "initial_state", "encode", "features", "trace"):
        assert not hasattr(reader(), name)


def test_stories_are_words():
    made = reader().config.model_dump()
    made["interface"] |= {"vocabulary": None, "input": (5,)}
    made["architecture"]["embedding"] = None
    with pytest.raises(ValueError, match="form 'question' needs a 'vocabulary'"):
        Config.model_validate(made)


# words


def test_stories_and_questions_to_tokens():
    tokenizer = Tokenizer([*RESERVED, *"abcd"], 5)
    x, lengths = tokenizer.ask(["A b. C!", "a b c d", ""], ["D?", "b c", ""])
    assert x.tolist() == [[2, 3, 4, 5, 0], [3, 4, 5, 3, 4], [1, 1, 0, 0, 0]]
    assert lengths.tolist() == [[3, 1], [3, 2], [1, 1]]  # of the second story, the beginning is left out
    with pytest.raises(RequestError, match="at most 4 words"):
        tokenizer.ask(["a"], ["a b c d a"])
    with pytest.raises(RequestError, match="1 stories and 2 questions"):
        tokenizer.ask(["a"], ["a", "b"])
    assert torch.equal(tokenizer.ask("A b.", "D?")[0], tokenizer.ask(["A b."], ["D?"])[0])
    with pytest.raises(RequestError, match="1 stories and 2 questions"):
        tokenizer.ask("a", ["a", "b"])


# the dataset, as it is published, but small

TRAIN = """1 Mary moved to the bathroom.
2 Mary took the milk there.
3 Where is the milk? \tbathroom\t1 2
4 Mary took the apple.
5 What is Mary carrying? \tmilk,apple\t2 4
1 John is in the hall.
2 Where is John?\thall\t1
1 Mary isn't here.
2 Where is Mary? \tbathroom\t1
3 Where was Mary? \thall\t1
"""
TEST = "1 John moved to the garden.\n2 Where is John? \tgarden\t1\n"
FILES = {f"en/qa2_two-supporting-facts_{part}.txt": text.encode() for part, text in (("train", TRAIN), ("test", TEST))}
WORDS = "apple bathroom carrying garden hall here in is isnt john mary milk milk,apple moved the there to took was what where"


def dataset(**changes):
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    known = registry.load_registry().datasets["babi"]
    return known.model_copy(update={"sha256": digests, "validation": 1, **changes})


def task(**changes):
    known = registry.load_registry().all_tasks["babi-02"]
    return known.model_copy(update={"vocabulary": 23, "outputs": 23, "steps": 30, **changes})


def archive(path, prefix="tasks_1-20_v1-2/", files=FILES):
    """A .tar.gz as the original is one, with other languages and sizes beside."""
    with tarfile.open(path, "w:gz") as out:
        for name, content in files.items():
            for folder, text in ((name.replace("en/", "en-10k/"), b"other"), (name, content)):
                member = tarfile.TarInfo(prefix + folder)
                member.size = len(text)
                out.addfile(member, io.BytesIO(text))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for the dataset."""
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    (tmp_path / "babi_v1-2").mkdir()
    return tmp_path / "babi_v1-2"


@pytest.mark.parametrize("place", ["archive", "its copy", "unpacked", "below", "gzipped"])
def test_the_archive_and_what_it_unpacks_to_are_read(folder, place):
    if place == "archive":
        archive(folder / "tasks_1-20_v1-2.tar.gz")
    elif place == "its copy":
        archive(folder / "babi_en.tar.gz", prefix="")
    for name, content in FILES.items():
        path = folder / ("tasks_1-20_v1-2" if place == "unpacked" else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if place == "gzipped":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
        elif "arch" not in place and "copy" not in place:
            path.write_bytes(content)
    data = task_data(task(), dataset())
    assert data.tokenizer.words == (*RESERVED, *WORDS.split())
    found = {name: data.split(name) for name in ("train", "validation", "test")}
    rows = []
    for name, split in found.items():
        x, y, lengths = split.batch(torch.arange(len(split)), CPU)
        assert x.dtype == torch.int64
        assert x.shape[1] == lengths.sum(1).max()
        for row, answer, (story, question) in zip(x, y, lengths.tolist(), strict=True):
            said = data.tokenizer.decode(row[:story]), data.tokenizer.decode(row[story : story + question])
            rows.append((name, *said, data.tokenizer.words[answer]))
    milk = "mary moved to the bathroom mary took the milk there"
    assert rows == [
        ("train", milk, "where is the milk", "bathroom"),
        ("train", f"{milk} mary took the apple", "what is mary carrying", "milk,apple"),
        ("train", "john is in the hall", "where is john", "hall"),
        ("validation", "mary isnt here", "where is mary", "bathroom"),  # a story is not parted: two are kept, not one
        ("validation", "mary isnt here", "where was mary", "hall"),
        ("test", "john moved to the garden", "where is john", "garden"),
    ]
    assert found["validation"].digests == found["train"].digests != found["test"].digests


def test_missing_and_other_files_are_data_errors(folder):
    with pytest.raises(
        DataError, match=r"was not found in .*research\.facebook\.com.*set RNNZOO_DATA.*Hub was asked too"
    ) as caught:
        task_data(task(), dataset()).split("test")
    assert "\n" not in str(caught.value)
    path = folder / "tasks_1-20_v1-2.tar.gz"
    archive(path, files={"en/qa1.txt": b""})
    with pytest.raises(DataError, match="was not found"):
        task_data(task(), dataset()).split("test")
    archive(path, files=dict.fromkeys(FILES, b"1 Something else.\n"))
    with pytest.raises(
        DataError, match=r"tar\.gz is not the original en/qa2_two-supporting-facts_train.txt .*sha256 differs"
    ):
        task_data(task(), dataset()).split("test")
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"tar\.gz: cannot be read"):
        task_data(task(), dataset()).split("test")
    path.unlink()
    archive(path)
    with pytest.raises(DataError, match=r"the files have 23 tokens, but the registry's .vocabulary. is 40"):
        task_data(task(vocabulary=40), dataset()).split("test")
    with pytest.raises(RequestError, match=r"no layout 'qa3'.*one of: .*qa2-two-supporting-facts"):
        task_data(task(layout="qa3"), dataset())


def test_the_archive_of_the_hub_is_taken_where_there_is_none(folder, monkeypatch, tmp_path):
    archive(tmp_path / "fetched.tar.gz")
    asked = []
    monkeypatch.setattr(
        "zoo.checkpoints.sources.dataset_file",
        lambda repo, name: asked.append((repo, name)) or tmp_path / "fetched.tar.gz",
    )
    assert len(task_data(task(), dataset()).split("test")) == 1
    assert set(asked) == {("facebook/babi_qa", "data/tasks_1-20_v1-2.tar.gz")}
    archive(tmp_path / "fetched.tar.gz", files={"en/qa1.txt": b""})
    with pytest.raises(DataError, match=r"fetched\.tar\.gz has no en/qa2_two-supporting-facts_"):
        task_data(task(), dataset()).split("test")


@pytest.mark.parametrize("line", ["Where?", "2 ", "2 Where?\tthere", "x Where?\tthere\t1", "2 ..."])
def test_another_layout_is_a_data_error(line):
    with pytest.raises(DataError, match=r"qa\.txt, line 2: the line is neither a statement nor a question"):
        questions(f"1 Here.\n{line}\n", "qa.txt")
    with pytest.raises(DataError, match="line 1"):
        questions("2 Here.\n", "qa.txt")


# training, and what is written about it


@pytest.mark.parametrize("held_out", [1000, 10**6])
def test_a_split_without_questions_is_a_data_error(folder, held_out):
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with pytest.raises(DataError, match="has no examples in its train split"):
        task_data(task(), dataset(validation=held_out)).split("train")


@pytest.fixture
def zoo(small_zoo, tmp_path):
    """A zoo whose one model answers questions, and the data for it."""
    made, asked = dataset(), task()
    root = small_zoo(
        {"epochs": 60, "batch_size": 3, "patience": 5},
        cell="rin",
        task="babi-02",
        embedding={"size": 6, "trainable": True},
    )
    (tmp_path / "data" / "babi_v1-2").mkdir(parents=True)
    archive(tmp_path / "data" / "babi_v1-2" / "tasks_1-20_v1-2.tar.gz")
    registry.load_registry().datasets["babi"] = made
    registry.load_registry().all_tasks["babi-02"] = asked
    return root


@pytest.mark.usefixtures("zoo")
def test_training_ends_when_it_has_converged(tmp_path):
    out = tmp_path / "run"
    found = train(registry.find(NAME), out, device="cpu")
    assert found.finished
    assert found.epochs_done == len(found.history) == found.best.epoch + 5 < 60
    again = train(registry.find(NAME), out, device="cpu")
    assert again.history == found.history
    assert not found.model_copy(update={"history": found.history[:-1], "epochs_done": found.epochs_done - 1}).finished
    network = loading.load(out, device="cpu")
    assert isinstance(network, StoryReader)
    x, lengths = network.tokenizer.ask(["Mary moved to the hall."], ["Where is Mary?"])
    assert network.tokenizer.words[network(x, lengths).argmax()] in WORDS.split()
    measured = evaluate(out, device="cpu")
    assert (measured.metric, measured.n, measured.task) == ("accuracy", 1, "babi-02")
    made = registry.load_registry().all_tasks["babi-02"]
    registry.load_registry().all_tasks["babi-02"] = made.model_copy(update={"form": "sequence"})
    with pytest.raises(RequestError, match="does not fit babi-02"):
        evaluate(out, device="cpu")


def test_the_card_says_how_to_ask():
    entry = registry.find("rin-1x100-babi-01")
    text = cards.compose(entry, results.Results(), cards.counts(entry.name))
    assert "model.tokenizer.ask(story, question)" in text
    assert '    story = "' in text
    assert "model.step" not in text
    assert "a story and a question" in text


# the registry


def test_tasks_are_the_twenty():
    tasks = {key: t for key, t in registry.load_registry().all_tasks.items() if t.family == "babi"}
    assert list(tasks) == [f"babi-{n:02}" for n in range(1, 21)]
    for n, found in enumerate(tasks.values(), 1):
        assert found.layout.startswith(f"qa{n}-")
        assert found.vocabulary == found.outputs
        assert isinstance(found, Task)
    assert len(registry.load_registry().datasets["babi"].sha256) == 40


@pytest.mark.data
@pytest.mark.parametrize("number", [1, 17, 19])
def test_the_real_questions(number):
    known = registry.load_registry()
    data = task_data(known.tasks[f"babi-{number:02}"], known.datasets["babi"])
    train_, validation, test = (data.split(name) for name in ("train", "validation", "test"))
    assert len(train_) + len(validation) == len(test) == 1000
    assert 100 <= len(validation) < 108
    longest = max(int(s.lengths.sum(1).max()) for s in (train_, validation, test))
    assert longest == data.task.steps
