"""Benchmarks: ``make bench``. Only ``test_long_recording`` is a test, of what is generated.

``cluster`` simulates brokers and controllers that log requests, ``long_recording`` writes their
logs, ``scale`` measures runs on these and prints docs/performance.md and docs/scaling.md.
"""
