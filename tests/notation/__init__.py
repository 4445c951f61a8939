"""Histories as text that reads like the KIPs, and rows of logs by hand."""

from .player import check

__all__ = ["check"]
