"""The report: one HTML file on what each rule would do to a cluster, and how sure that is.

``data`` reads the tables by DuckDB into ``values``, ``logs`` and ``accuracy``. Each rule's folder
has ``figures`` (its queries, and what they mean), ``words`` (sentences) and ``section`` (tables
and pictures). ``page`` fills the template with values of ``view``.
"""
