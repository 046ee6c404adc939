"""Every link and picture within a built site leads somewhere: files are there, and so are the places in them. Nothing outside is asked for."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links of a page, what it loads, and the places that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given:
            (self.links if given.get("rel") in ("next", "prev", "search", "index", "canonical") else self.loads).append(
                given[LOADED[tag]]
            )


def problems(site: Path) -> list[str]:
    """One sentence for each link that leads nowhere, and for each thing that a page would load from elsewhere."""
    pages = {
        file: Page(file.read_text(encoding="utf-8"))
        for file in sorted(site.rglob("*.html"))
        if "_static" not in file.parts
    }
    found = []
    for file, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            where = f"{file.relative_to(site)}: {link}"
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{where} is loaded from elsewhere.")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{where} leads to no file.")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{where} leads to no place on its page.")
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    print("\n".join(found) or f"{sum(1 for _ in site.rglob('*.html'))} pages; every link within them leads somewhere.")
    sys.exit(bool(found))
