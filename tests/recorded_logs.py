"""Where recordings of real brokers are: samples for users, and others for tests only."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PLACES = (REPOSITORY / "data" / "samples", REPOSITORY / "tests" / "recordings")


def folder_of(recording: str) -> Path:
    """The folder of a recording, whichever of the two places it is in."""
    return next(place / recording for place in PLACES if (place / recording).is_dir())
