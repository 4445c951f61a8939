"""The report: one HTML file that tells what KIP-1166 does to a cluster, and how well that is known.

``data`` reads the tables into plain values, ``words`` and ``pictures`` say and draw what they mean,
``page`` fills the template. Nothing here computes a figure that the tables do not hold.
"""

from __future__ import annotations

from pipelines.report.page import REPORT_NAME, render, write_report

__all__ = ["REPORT_NAME", "render", "write_report"]
