"""Engines, Delta tables, and the steps from a log to a report; never imports ``jobs``."""

import gc
import os
import signal
import sys
from importlib import import_module


def ready_process() -> None:
    """Readies a process of a command; before the rest is imported, which is then half as long."""
    # What is read stays: looking through it for garbage so often takes longer than it frees.
    gc.set_threshold(100_000, 20, 100)
    # Threads of OpenBLAS spin for 0.05 s as they start, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own allocator hands pages back to the system and takes them again, batch by batch.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # pyarrow imports pandas with its first array, if there is one: nobody hands it a frame here.
    arrow, path = import_module("pyarrow"), sys.path
    sys.path = []
    arrow.array([0])
    sys.path = path
    # Nor is what all commands import ever garbage. Of DuckDB, which comes later, the interpreter's
    # last look must free everything, or its bindings complain.
    if "duckdb" not in sys.modules:
        import_module("kip_replay.replay.tables")
        gc.freeze()


def ready_worker() -> None:
    """Readies a process that a command has started."""
    # Ctrl-C reaches all processes of a terminal: these end without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ready_process()
