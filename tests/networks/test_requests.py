"""Requests that a network cannot meet are refused."""

import pytest
import torch
from helpers import (
    config,
    network,
)
from marks import batch, dense_and_conv, shape

from zoo.errors import RequestError
from zoo.networks import builder


@pytest.mark.parametrize("bad", [(3, 6), (3, 6, 3), (3, 6, 2, 1), (3, 0, 2), (0, 6, 2), (2,), ()], ids=str)
@pytest.mark.parametrize("call", ["__call__", "encode", "features"])
def test_bad_shapes_are_refused(bad: tuple[int, ...], call: str) -> None:
    net = network()
    with pytest.raises(RequestError, match=r"small takes x of shape \(batch, time, 2\); got ") as error:
        getattr(net, call)(torch.zeros(bad, dtype=torch.float64))
    assert str(bad) in str(error.value)


@pytest.mark.parametrize("bad", [(3, 6, 2, 4, 3), (3, 6, 2), (3, 2, 3, 4), (3, 6, 1, 3, 4)], ids=str)
def test_bad_images_are_refused(bad: tuple[int, ...]) -> None:
    net = network(kernel=3, inputs=(2, 3, 4))
    with pytest.raises(RequestError, match=r"small takes x of shape \(batch, time, 2, 3, 4\); got "):
        net(torch.zeros(bad, dtype=torch.float64))


@pytest.mark.parametrize("bad", [(3, 6, 2), (3, 3), (2,), (3,)], ids=str)
def test_bad_shapes_of_a_step_are_refused(bad: tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match=r"step takes x of shape \(batch, 2\); got "):
        network().step(torch.zeros(bad, dtype=torch.float64))


def test_an_empty_step_is_refused_after_others_too() -> None:
    net, x = network(dtype=torch.float32).eval(), torch.zeros(3, 2)
    state = tuple(tuple(s[:0] for s in layer) for layer in net.initial_state(3))
    with torch.no_grad():
        net.step(x)
        with pytest.raises(RequestError, match=r"step takes x of shape \(batch, 2\); got \(0, 2\), which is empty"):
            net.step(x[:0], state)


@dense_and_conv
@pytest.mark.parametrize("size", [1, 2, 4])
def test_states_of_another_batch_are_refused(kernel: int | None, size: int) -> None:
    net = network(kernel=kernel, inputs=shape(kernel))
    x, state = batch(net, 3), net.initial_state(size)
    with pytest.raises(RequestError, match="state"):
        net.encode(x, state)
    with pytest.raises(RequestError, match="state"):
        net.step(x[:, 0], state)


@pytest.mark.parametrize(("kernel", "inputs"), [(3, (2,)), (None, (2, 3, 4)), (3, (2, 3)), (None, (2, 3))], ids=str)
def test_images_need_a_kernel_and_numbers_need_none(kernel: int | None, inputs: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"kernel|input"):
        builder.build(config(kernel=kernel, inputs=inputs), device="meta")


BAD_LENGTHS = {
    "zero": [6, 0, 1],
    "negative": [6, -1, 1],
    "too long": [6, 7, 1],
    "too few": [6, 1],
    "too many": [6, 1, 1, 1],
    "a number": 6,
    "a matrix": [[6, 1, 1]],
    "fractions": [6.0, 1.0, 1.0],
    "complex": [6 + 0j, 1 + 0j, 1 + 0j],
    "a mask": [True, True, True],
}


@pytest.mark.parametrize("lengths", BAD_LENGTHS.values(), ids=BAD_LENGTHS)
@pytest.mark.parametrize("call", ["__call__", "encode", "features"])
def test_bad_lengths_are_refused(lengths: object, call: str) -> None:
    net = network()
    with pytest.raises(RequestError, match="lengths must be 3 integers from 1 to 6"):
        getattr(net, call)(batch(net), lengths=torch.tensor(lengths))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64])
def test_autocast_does_not_make_numbers_of_anything(dtype: torch.dtype) -> None:
    net = network(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert net(torch.ones(3, 6, 2, dtype=torch.bfloat16)).isfinite().all()
        with pytest.raises(RequestError, match=r"small takes torch\.float32; got"):
            net(torch.ones(3, 6, 2).to(dtype))


def test_batch_norm_of_one_sequence_is_refused_in_training() -> None:
    net = network(block={"norm": "batch"}, train=True)
    with pytest.raises(RequestError, match="cannot train on a single vector"):
        net(batch(net, 1))
    net.eval()(batch(net, 1))
