"""The exponential of a matrix: values and gradients against torch.linalg.matrix_exp in float64, and odd matrices."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jvp, vmap

from zoo.cells.exponential import exponential


def matrices(scale: float, dtype: torch.dtype = torch.float32, n: int = 12) -> Tensor:
    """Return three matrices, (3, n, n), of which the second is `scale` times as large as the others."""
    real = torch.randn(3, n, n, dtype=dtype, generator=torch.Generator().manual_seed(0)) / math.sqrt(n)
    return real * torch.tensor([1.0, scale, 1.0], dtype=real.real.dtype)[:, None, None]


@pytest.mark.parametrize("scale", [0, 1e-6, 0.1, 1, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_values_and_gradients_are_those_of_torch(scale: float, dtype: torch.dtype) -> None:
    a = matrices(scale, dtype).requires_grad_()
    b = a.detach().to(torch.promote_types(dtype, torch.float64)).requires_grad_()
    ours, exact = exponential(a), torch.linalg.matrix_exp(b)
    tolerance = 1e-12 if a.real.dtype == torch.float64 else 1e-5
    assert ours.dtype == dtype
    assert (ours - exact).abs().max() <= tolerance * exact.abs().max()
    weights = matrices(1, b.dtype)
    (ours * weights.to(dtype)).sum().abs().backward()
    (exact * weights).sum().abs().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad - b.grad).abs().max() <= 10 * tolerance * b.grad.abs().max()


@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_the_exponential_of_a_skew_matrix_is_orthogonal(scale: float) -> None:
    a = scale * matrices(1, n=100)
    q = exponential(a - a.mT)
    torch.testing.assert_close(q @ q.mT, torch.eye(100).expand(3, -1, -1), rtol=0, atol=1e-5 * max(1, scale))


def test_derivatives_of_both_orders_and_modes() -> None:
    a = matrices(2, torch.float64, n=3).requires_grad_()
    assert gradcheck(exponential, a, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(exponential, a)


def test_where_numbers_cannot_be_read() -> None:
    a = matrices(3)
    torch.testing.assert_close(vmap(exponential)(a), exponential(a))
    tangents = vmap(lambda m: jvp(exponential, (m,), (m,))[1])(a)
    torch.testing.assert_close(tangents, jvp(exponential, (a,), (a,))[1])
    assert exponential(a.to("meta")).shape == a.shape
    torch.testing.assert_close(torch.compile(exponential, backend="eager", fullgraph=True)(a), exponential(a))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_numbers_that_are_not_finite_do_not_end_it(number: float) -> None:
    assert not exponential(torch.full((2, 2), number)).isfinite().any()


@pytest.mark.parametrize("flushed", [False, True])
def test_huge_numbers_overflow(flushed: bool) -> None:
    try:
        torch.set_flush_denormal(flushed)
        for number in (1e3, 1e30, 1e38):
            assert not exponential(torch.full((2, 2), number)).isfinite().all()
    finally:
        torch.set_flush_denormal(True)  # as `build` does
