"""The report: one HTML file that tells what each rule would do to a cluster, and how sure that is.

``data`` reads the tables into plain values. Each rule has three modules: one named after it (what
the tables say), ``_words`` (what that means) and ``_section`` (its tables and pictures). ``logs``
and ``accuracy`` are the same for what was read and for predictions beside recordings. ``page``
fills the template with values of ``view``. Nothing here computes a figure that the tables do not
hold.
"""

from __future__ import annotations

from kip_replay.pipelines.report.page import REPORT_NAME, render, write_report

__all__ = ["REPORT_NAME", "render", "write_report"]
