"""The report: one HTML file on what each rule would do to a cluster, and how sure that is.

``data`` reads the tables by DuckDB into values of ``pipelines.page``, and ``logs``. Each rule's
folder has ``figures`` (its queries, and what they mean), ``words`` (sentences), ``page.toml``
(what is said whatever the logs) and ``section`` (tables and pictures).
"""
