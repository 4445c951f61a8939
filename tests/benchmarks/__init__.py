"""Benchmarks: ``make bench`` (or ``PYTHONPATH=tests python -m benchmarks.scale --help``).

``cluster`` simulates brokers and controllers that log requests, ``long_recording`` writes their
logs, ``scale`` measures runs on these (each in ``processes`` of its own), and ``pages`` prints
docs/performance.md and docs/scaling.md of the figures. None of it is a test;
``tests/benchmarks/test_long_recording.py`` tests what is generated.
"""
