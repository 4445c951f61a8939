"""The report: one HTML file that tells what each rule would do to a cluster, and how sure that is.

``data`` reads the tables into plain values. Each rule has a module named after it (what the tables
say of it) and one that ends in ``_section`` (what that means, in words, tables and pictures);
``logs`` and ``accuracy`` do the same for what was read and for predictions beside recordings.
``page`` fills the template with values of ``view``. Nothing here computes a figure that the tables
do not hold.
"""

from __future__ import annotations

from pipelines.report.page import REPORT_NAME, render, write_report

__all__ = ["REPORT_NAME", "render", "write_report"]
