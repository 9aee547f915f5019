"""Make the pictures of the dashboard: a service with made-up experiments, seen by Chromium.

``python docs/pictures/make_dashboard_pictures.py`` writes docs/images/dashboard_*.png.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from helpers.histories import made, names  # noqa: E402
from helpers.served import served  # noqa: E402
from serve.test_browser import FLAGS  # noqa: E402

PICTURES = (
    ("overview", "/", 1080, 420, "light"),
    ("experiment", "/experiments/headline", 1080, 1120, "light"),
    ("phone", "/experiments/headline", 375, 900, "light"),
    ("dark", "/experiments/models", 560, 900, "dark"),
)
"""Name, page, width, height, theme."""


def experiments(store: Path) -> None:
    """Make four experiments: one that knows, one under attack, one that is new, one that moved."""
    headlines = ["Plain and short", "A question?", "Numbers first", "With a name"]
    made(
        store, "headline", headlines, rounds=412_345, logged=10_000, checkpoints=400, missing=0.0,
        description="Headline of the front page; a reward is a click within a minute.",
    )  # fmt: skip
    made(
        store, "models", names(12), rounds=2_000_000, logged=10_000, checkpoints=400, drift=True,
        quarantined=37,
    )  # fmt: skip
    made(store, "checkout", ["one page", "two pages"], rounds=900, logged=900, checkpoints=60)
    made(store, "colours", ["red", "green", "blue"])
    # As if clients had reported rewards, which the dashboard then shows.
    with contextlib.closing(sqlite3.connect(store)) as rows, rows:
        rows.execute("UPDATE experiment SET rewarded = 1")


def picture(browser: Browser, url: str, width: int, height: int, theme: str) -> bytes:
    """Return a page as a PNG of few colours."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_text("live", exact=True).wait_for()
    if page.locator("figure[data-chart]").count():
        page.locator("#part-report").get_by_text("beats").first.wait_for()
        page.locator("figure canvas").first.wait_for()
    page.wait_for_timeout(500)
    shot = Image.open(io.BytesIO(page.screenshot()))
    context.close()
    out = io.BytesIO()
    shot.convert("RGB").quantize(96, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.db"
        experiments(store)
        with served(store) as service, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=FLAGS
            )
            for name, path, width, height, theme in PICTURES:
                made_here = picture(browser, service.url + path, width, height, theme)
                (IMAGES / f"dashboard_{name}.png").write_bytes(made_here)
                print(f"dashboard_{name}.png: {len(made_here):,} bytes")
            browser.close()


if __name__ == "__main__":
    main()
