"""Adds what setup.cfg cannot say: addresses, and a long description whose links work anywhere."""

import re
from pathlib import Path

from setuptools import setup

# A placeholder, until the repository has a public address: everything else is made of it.
REPOSITORY_URL = "https://kip-replay.example/kip-replay"


def with_absolute_links(page: str) -> str:
    """Returns a page of Markdown whose links into the repository, and pictures, name this URL."""
    page = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\1{REPOSITORY_URL}/raw/main/", page)
    return re.sub(r"(\]\()(?!\w+:|#)", rf"\1{REPOSITORY_URL}/blob/main/", page)


if __name__ == "__main__":
    setup(
        url=REPOSITORY_URL,
        project_urls={
            "Documentation": f"{REPOSITORY_URL}/blob/main/docs/tutorial.md",
            "Changelog": f"{REPOSITORY_URL}/blob/main/CHANGELOG.md",
            "Issues": f"{REPOSITORY_URL}/issues",
        },
        long_description=with_absolute_links(Path("README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
