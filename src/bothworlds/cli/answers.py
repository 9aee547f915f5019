"""Numbers as people write them in a shell, or a sentence about what they should be."""

from __future__ import annotations

from fractions import Fraction

from bothworlds.errors import InvalidParameter, must


def whole(text: str, option: str, command: str) -> int:
    """Read a whole number such as 200000, 200_000 or 2e5.

    Examples
    --------
    >>> whole("2e5", "--horizon", "paper")
    200000
    """
    try:
        value = Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        value = Fraction(1, 2)
    if value.denominator != 1:
        raise InvalidParameter(must(option, command, "a whole number such as 1000 or 1e6", text))
    return int(value)


def wholes(text: str, option: str, command: str) -> list[int]:
    """Read whole numbers with commas between them.

    Examples
    --------
    >>> wholes("2,8,32", "--arms", "paper")
    [2, 8, 32]
    """
    try:
        return [whole(part, option, command) for part in text.split(",")]
    except InvalidParameter:
        expected = "whole numbers such as 8 or 2,8,32"
        raise InvalidParameter(must(option, command, expected, text)) from None


def ratios(text: str, option: str, command: str) -> list[float]:
    """Read numbers or fractions with commas between them.

    Examples
    --------
    >>> ratios("1/8,0.25", "--gap", "paper")
    [0.125, 0.25]
    """
    try:
        return [float(Fraction(part.strip())) for part in text.split(",")]
    except (OverflowError, ValueError, ZeroDivisionError):
        expected = "numbers or fractions such as 0.05 or 1/16,1/8"
        raise InvalidParameter(must(option, command, expected, text)) from None
