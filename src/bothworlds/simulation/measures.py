"""Kinds of regret: their names as methods of `Result` take them, and in words."""

MEASURES = {
    "pseudo": "pseudo-regret",
    "realised": "realised regret",
    "block": "regret against the best arm of each block",
    "fixed": "regret against the best fixed arm",
    "dynamic": "regret against the best arm of each round",
    "fixed in this run": "regret against the best fixed arm of each run",
    "best expert at each time": "regret against the best expert at each time",
}
"""Kinds of regret."""


def title(regret: str) -> str:
    """Return the words for a kind of regret, for the start of a line.

    Examples
    --------
    >>> title("realised")
    'Realised regret'
    """
    words = MEASURES[regret]
    return words[0].upper() + words[1:]
