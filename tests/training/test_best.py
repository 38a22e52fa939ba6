"""The best weights of a run: a run killed between its weights and its state goes on from the weights of the state."""

from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import registry
from zoo.checkpoints import results, tensors
from zoo.networks.builder import build
from zoo.training import trainer
from zoo.training.best import PREVIOUS, BestWeights
from zoo.training.evaluation import Measured, measure
from zoo.training.state import State
from zoo.utils import files

NAME = "rnn-1x8-mnist-rows"


def test_weights_are_replaced_and_the_ones_before_kept_until_the_state_is_written(tmp_path: Path) -> None:
    best = BestWeights(tmp_path)
    best.write(build("rnn-1x4", inputs=1, outputs=2, device="cpu", seed=1))
    first = best.sha256
    assert not best.previous.exists()
    best.settle()
    best.write(build("rnn-1x4", inputs=1, outputs=2, device="cpu", seed=2))
    assert files.sha256(best.path) == best.sha256 != first == files.sha256(best.previous)
    again = BestWeights(tmp_path)
    again.sha256 = first  # of the state: the one with the digest of the second was never written
    again.go_back()
    assert files.sha256(again.path) == first
    assert not again.previous.exists()
    again.write(build("rnn-1x4", inputs=1, outputs=2, device="cpu", seed=2))
    last = BestWeights(tmp_path)
    last.sha256 = again.sha256  # the state was written, and the weights before not removed yet
    last.go_back()
    assert files.sha256(last.path) == again.sha256
    assert not last.previous.exists()


def test_an_epoch_that_is_not_the_best_when_it_is_computed_again_loses_no_weights(
    small_zoo: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on another device, whose roundings differ."""
    small_zoo({"epochs": 3})
    losses, write = iter([3.0, 2.0]), State.write

    def measured(*arguments: object, **options: object) -> Measured:
        found = measure(*arguments, **options)  # type: ignore[arg-type]
        return Measured(next(losses), found.metric, found.n)

    def killed(self: State, path: Path) -> None:
        if len(self.history) == 2:
            raise KeyboardInterrupt
        write(self, path)

    monkeypatch.setattr(trainer, "measure", measured)
    with monkeypatch.context() as patch:
        patch.setattr(State, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            trainer.train(registry.find(NAME), tmp_path, device="cpu")
    assert (tmp_path / PREVIOUS).exists()
    losses = iter([4.0, 5.0])
    training = trainer.train(registry.find(NAME), tmp_path, device="cpu")
    assert [row.validation_loss for row in training.history] == [3.0, 4.0, 5.0]
    assert training.checkpoint_sha256 == files.sha256(tmp_path / tensors.FILE)
    assert not (tmp_path / PREVIOUS).exists()
    assert results.read(tmp_path).training == training
