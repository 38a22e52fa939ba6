"""Training images as a recipe has them seen."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from zoo.data import augmentation
from zoo.data.augmentation import augmented, displacements, shifted, warped
from zoo.data.base import Split
from zoo.publishing.training_text import recipe_text
from zoo.registry.schema import Affine, Augmentation, Elastic, Recipe


def reference(image: Tensor, angle: float, growth: float, lean: float) -> Tensor:
    """An image mapped about its centre, in float64 and pixels: turned by an angle, grown, and sheared before that."""
    height, width = image.shape
    found = torch.zeros(height, width, dtype=torch.float64)
    for i in range(height):
        for j in range(width):
            x, y = j - (width - 1) / 2, i - (height - 1) / 2
            x = x + math.tan(lean) * y  # what is drawn at (x, y) is taken from where this leads
            x, y = math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y
            x, y = x / growth + (width - 1) / 2, y / growth + (height - 1) / 2
            for near in (math.floor(y), math.floor(y) + 1):
                for beside in (math.floor(x), math.floor(x) + 1):
                    if 0 <= near < height and 0 <= beside < width:
                        found[i, j] += (1 - abs(y - near)) * (1 - abs(x - beside)) * float(image[near, beside])
    return found


@pytest.mark.parametrize("size", [(9, 9), (6, 11)])
@pytest.mark.parametrize(
    "affine", [{"degrees": 40}, {"scale": 0.4}, {"shear": 30}, {"degrees": 180, "scale": 0.3, "shear": 20}], ids=str
)
def test_mapped_images(affine: dict[str, float], size: tuple[int, int]) -> None:
    most, images = Affine(**affine), torch.rand(5, *size)
    torch.manual_seed(3)
    angle, growth, lean = (2 * torch.rand(3, 5) - 1).double()
    torch.manual_seed(3)
    found = warped(images, most)
    for i in range(5):
        expected = reference(
            images[i], float(angle[i]) * math.radians(most.degrees or 0), 1 + float(growth[i]) * (most.scale or 0),
            float(lean[i]) * math.radians(most.shear or 0),
        )  # fmt: skip
        torch.testing.assert_close(found[i].double(), expected, rtol=0, atol=1e-5)
    torch.manual_seed(3)
    rounded = warped((255 * images).round().to(torch.uint8), most)
    assert rounded.dtype == torch.uint8
    assert (rounded.double() - 255 * found).abs().max() <= 1.01


def test_images_are_mapped_both_ways_and_as_far_as_said() -> None:
    """A bar of 21 pixels through the centre shows the angle and the growth that it was drawn with."""
    images = torch.zeros(500, 41, 41)
    images[:, 20, 10:31] = 1
    at = torch.arange(41.0) - 20
    found = warped(images, Affine(degrees=30, scale=0.2))
    weight = found.sum((1, 2))
    xx, yy, xy = (torch.einsum("nyx,y,x->n", found, *by) / weight for by in ((at**0, at**2), (at**2, at**0), (at, at)))
    angle = torch.rad2deg(torch.atan2(2 * xy, xx - yy) / 2)
    length = (12 * (xx + yy)).sqrt() / 21
    for found, least, most in ((angle, -30, 30), (length, 0.8, 1.2)):
        part = (most - least) / 20
        assert (found > least - part).all()
        assert (found < most + part).all()
        assert (found < least + part).any()
        assert (found > most - part).any()


@pytest.mark.parametrize("size", [(7, 7), (5, 9)])
def test_displacements_are_noise_convolved_with_a_gaussian(size: tuple[int, int]) -> None:
    n, (height, width), sigma = 2, size, 1.5
    torch.manual_seed(4)
    found = displacements(n, height, width, Elastic(alpha=3.0, sigma=sigma))
    torch.manual_seed(4)
    noise = 3 * (2 * torch.rand(n, 2, height, width).double() - 1)
    assert found.shape == (n, height, width, 2)
    for i in range(height):
        for j in range(width):
            expected = torch.zeros(n, 2, dtype=torch.float64)
            for y in range(height):
                for x in range(width):
                    distance = (i - y) ** 2 + (j - x) ** 2
                    weight = math.exp(-distance / (2 * sigma**2)) / (2 * math.pi * sigma**2)
                    expected += weight * noise[:, :, y, x]
            torch.testing.assert_close(found[:, i, j].double(), expected, rtol=0, atol=1e-6)


def test_the_usual_displacements_are_of_a_pixel_and_a_half() -> None:
    moves = displacements(300, 41, 41, Elastic(alpha=34.0, sigma=4.0))[:, 20, 20]
    assert moves.std(0).tolist() == pytest.approx([1.38, 1.38], rel=0.15)


@pytest.mark.parametrize("size", [(9, 9), (6, 11)])
def test_pixels_are_taken_from_where_they_are_displaced(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A displacement of whole pixels, (right, down), takes each value from that many pixels to the right and below."""
    height, width = size
    images, elastic = torch.rand(1, height, width), Elastic(alpha=1.0, sigma=1.0)
    for right, down in ((0, 0), (2, 0), (0, 1), (-1, 2)):
        moves = torch.tensor([float(right), float(down)]).expand(1, height, width, 2)
        monkeypatch.setattr(augmentation, "displacements", lambda *given, moves=moves: moves)
        found = warped(images, elastic=elastic)
        for i in range(height):
            for j in range(width):
                inside = 0 <= i + down < height and 0 <= j + right < width
                expected = float(images[0, i + down, j + right]) if inside else 0.0
                assert float(found[0, i, j]) == pytest.approx(expected, abs=1e-5)


def test_what_is_augmented() -> None:
    images = torch.randint(256, (20, 28, 28), dtype=torch.uint8)
    assert torch.equal(augmented(images, Augmentation()), images)
    turned, elastic = Affine(degrees=20), Elastic(alpha=34.0, sigma=4.0)
    for affine, warp, shift in itertools.product((None, turned), (None, elastic), (None, 2)):
        by = Augmentation(affine=affine, elastic=warp, shift=shift)
        torch.manual_seed(5)
        expected = warped(images, affine, warp)
        expected = expected if shift is None else shifted(expected, shift)
        torch.manual_seed(5)
        assert torch.equal(augmented(images, by), expected)
        assert by.augments != torch.equal(expected, images)


def test_a_batch_is_augmented_as_images() -> None:
    split = Split(torch.randint(256, (9, 12)), torch.arange(9), {}, lambda raw: raw, image=(3, 4))
    by, some = Augmentation(affine=Affine(shear=40), shift=1), torch.tensor([7, 2, 2])
    torch.manual_seed(5)
    expected = augmented(split.raw[some].unflatten(1, (3, 4)), by).flatten(1)
    torch.manual_seed(5)
    found, targets, _ = split.batch(some, augment=by)
    assert torch.equal(found, expected)
    assert targets.tolist() == some.tolist()
    assert torch.equal(split.batch(some)[0], split.raw[some])


def test_the_first_stage_augments_as_its_recipe_says() -> None:
    own = {"affine": {"degrees": 5.0}, "elastic": {"alpha": 8.0, "sigma": 2.0}, "shift": 3}
    recipe = {
        "optimizer": {"name": "adam", "lr": 0.1},
        "batch_size": 1,
        "epochs": 9,
        **own,
        "stages": [{"start_epoch": 3, "lr": 0.1}],
    }
    first, last = (stage for stage, _ in Recipe.model_validate(recipe).timeline)
    assert (first.affine, first.elastic, first.shift) == (Affine(degrees=5.0), Elastic(alpha=8.0, sigma=2.0), 3)
    assert first.augments
    assert not last.augments


def test_shifted_images() -> None:
    images = torch.arange(1, 13, dtype=torch.uint8).reshape(1, 3, 4).expand(400, 3, 4)
    seen = set()
    for image in shifted(images, 1):
        moves = [
            (down, right)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if all(
                image[i, j] == (images[0, i - down, j - right] if 0 <= i - down < 3 and 0 <= j - right < 4 else 0)
                for i in range(3)
                for j in range(4)
            )
        ]
        assert len(moves) == 1
        seen |= set(moves)
    assert len(seen) == 9
    assert torch.equal(shifted(images, 0), images)


def test_a_recipe_says_how_it_augments() -> None:
    recipe = {"optimizer": {"name": "adam", "lr": 0.1}, "batch_size": 1, "epochs": 20}
    assert "images" not in recipe_text(Recipe.model_validate(recipe))
    fitted = {"name": "adamw", "lr": 0.1, "weight_decay": 0.02, "recurrence_factor": 0.5}
    rates = "adamw, learning rate 0.1 (constant), 0.5 times that for recurrences, weight decay 0.02, batch"
    assert recipe_text(Recipe.model_validate({**recipe, "optimizer": fitted})).startswith(rates)
    then = [{"start_epoch": 3, "lr": 0.1, "affine": {"degrees": 15, "scale": 0.1, "shear": 7.5}, "shift": 2}]
    text = recipe_text(Recipe.model_validate({**recipe, "shift": 1, "stages": then}))
    first, later = text.split("; ")
    assert first.endswith(", images shifted by up to 1 px")
    assert later.endswith(
        ", images rotated by up to 15°, scaled by up to 10 %, sheared by up to 7.5°, shifted by up to 2 px"
    )
    later = recipe_text(Recipe.model_validate({**recipe, "elastic": {"alpha": 34, "sigma": 4.5}, "shift": 1}))
    assert later.endswith(", images warped elastically with α = 34 px and σ = 4.5 px, shifted by up to 1 px")


def test_the_default_dtype_changes_nothing() -> None:
    images, by = torch.rand(3, 9, 7), Augmentation(affine=Affine(degrees=20), elastic=Elastic(alpha=8.0, sigma=2.0))
    torch.manual_seed(5)
    expected = augmented(images, by)
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(5)
        assert torch.equal(augmented(images, by), expected)
    finally:
        torch.set_default_dtype(torch.float32)
