"""Finds words that the project does not use in names and texts: ``python -m tools.words``.

A request is *requested*, a response *returned*, what a log has *recorded*, what it lacks a *gap*.
"""

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

#: By word, what to say instead.
_WORDS = {
    r"holes?": "gap",
    r"settl(?:e[sd]?|ing)": "warm up, finalize",
    r"doubt\w*|believ\w+": "unknown, uncertain",
    r"told|asked|said|(?<!be )answered": "returned, requested, recorded, stated",
    r"stands?(?! for| in for| out)|stood": "is",
    r"(?<!/)beats?(?!/)|seats?|knees?": "heartbeats, replica_index, elbow",
    r"handed out|in the place of|so many": "emitted, instead of, this many",
}
_ANY = re.compile("|".join(rf"(?<![A-Za-z])(?:{word})(?![a-z])" for word in _WORDS), re.IGNORECASE)
_OTHERS = (".png", ".ipynb", ".json")

if __name__ == "__main__":
    config = ConfigParser()
    config.read("setup.cfg")
    command = ["git", "ls-files", *config["words"]["folders"].split()]
    files = subprocess.run(command, capture_output=True, text=True, check=True)
    words = [
        f"{name}:{number}: {word[0]}"
        for name in files.stdout.split()
        if not name.startswith(tuple(config["words"]["but"].split())) and "/uplot/" not in name
        if not name.endswith(_OTHERS)
        for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1)
        for word in _ANY.finditer(line)
    ]
    sys.exit("\n".join([*words, "tools/words.py has what to say instead"]) if words else 0)
