"""Text for output."""

from zoo.utils.text import significant


def test_significant_digits() -> None:
    values = (0, 0.000012345, 0.12345, 1.2345, 12.345, 123.45, 1234567)
    assert [significant(value) for value in values] == [
        "0", "0.0000123", "0.123", "1.23", "12.3", "123", "1,234,567"
    ]  # fmt: skip
