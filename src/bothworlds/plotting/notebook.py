"""Figures that notebooks show by themselves."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

DPI = 110.0
"""Dots per inch in a notebook, whose pages are narrower than a paper's."""


class NotebookFigure(Figure):
    """A figure that a notebook shows without ``%matplotlib inline``.

    Examples
    --------
    >>> NotebookFigure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png", dpi=DPI)
        return written.getvalue()
