"""Take docs/images/demo.png: the page of ``bothworlds demo`` after a minute, in Chromium.

Run ``python docs/pictures/make_demo_picture.py``. It needs the extra ``serve``, Playwright and
Pillow for Python, and the Chromium of the system.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from bothworlds.demo.page import document
from bothworlds.demo.run import demonstration

IMAGES = Path(__file__).parent.parent / "images"
SECONDS, SEED = 60.0, 1
WIDTH = 1000
MOST = 100_000
"""Bytes of the picture."""


def main(folder: Path) -> None:
    """Run the demonstration, open its page, and take a picture of it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium must be installed for this; on Debian: apt-get install chromium")
    with demonstration(seed=SEED, said=print) as made:
        made.race.run(SECONDS, lambda: False, lambda: None)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": WIDTH, "height": 700})
            page.goto(made.page)
            page.screenshot(path=folder / "demo.png", full_page=True)
            browser.close()
        print(len(document(made.race.pictures(), made.service)), "bytes of page")
        for each in made.race.pictures():
            for s in each.standings:
                print(f"{each.name:12}{s.player:20}{s.lost:8,.0f} {each.unit}, {s.best:.0%} best")
    # A page has few colours; as many as a GIF has show all of them.
    Image.open(folder / "demo.png").convert("RGB").quantize(64, dither=Image.Dither.NONE).save(
        folder / "demo.png", optimize=True
    )
    size = (folder / "demo.png").stat().st_size
    print(f"{size:,} bytes")
    if size > MOST:
        sys.exit(f"The picture must have at most {MOST:,} bytes.")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
