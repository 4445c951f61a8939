"""Histories of the metadata log as text that reads like KIP-1166; ``grammar`` defines it."""

from .grammar import NotationError
from .player import check

__all__ = ["NotationError", "check"]
