"""Histories of the metadata log as text that reads like KIP-1166; ``grammar`` defines it."""

from __future__ import annotations

from .grammar import NotationError
from .player import check

__all__ = ["NotationError", "check"]
