"""Benchmarks: ``make bench`` (or ``PYTHONPATH=tests .venv/bin/python -m benchmarks``).

``real_lines`` and ``kip_227`` write request logs, ``contenders`` are programs that read them, each
run in a process of its own (``processes``), ``engines`` times the rules on Arrow batches,
and ``page`` prints docs/performance.md. None of it is a test;
``tests/unit/test_benchmark_logs.py`` tests what the generators write.
"""
