"""The commands: ``kip-replay --help``, or ``spark-submit jobs/main.py --help``."""
