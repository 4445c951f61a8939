"""Text in columns, and sizes as people say them."""

from collections.abc import Collection, Sequence


def in_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows as lines, each column as wide as its widest text; those in ``right`` end flush."""
    columns = []
    for place, texts in enumerate(zip(*rows, strict=True)):
        width, aligned = max(map(len, texts)), ">" if place in right else "<"
        columns.append([f"{text:{aligned}{width}}" for text in texts])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def size_text(size_bytes: int) -> str:
    """Bytes in the largest unit of 1,000 that leaves a number above 1: 12.3 MB."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} bytes"
