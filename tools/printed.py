"""The part of a page that tools print: between two comments, which stay."""

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
_END = "<!-- until here -->\n"


def fill(page: Path, text: str, by: str = "make docs") -> None:
    """Prints ``text`` into the page's part of a command. Raises ValueError if it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- printed by {by} -->\n")
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{page} has no part that is printed")
    page.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}", encoding="utf-8")
