"""Text for output."""

from zoo.utils.text import significant, size_text


def test_significant_digits() -> None:
    values = (0, 0.000012345, 0.12345, 1.2345, 12.345, 123.45, 1234567, 9.996, 99.96, -3.0, -1234)
    assert [significant(value) for value in values] == [
        "0", "0.0000123", "0.123", "1.23", "12.3", "123", "1,234,567", "10.0", "100", "-3.00", "-1,234"
    ]  # fmt: skip


def test_sizes_have_the_largest_unit_that_is_not_below_one() -> None:
    sizes = (0, 999, 1000, 999_949, 999_950, 1_500_000, 999_960_000)
    assert [size_text(size) for size in sizes] == [
        "0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "1.5 MB", "1.0 GB"
    ]  # fmt: skip
