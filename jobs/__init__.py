"""Entry points, `python -m jobs.<name>`: read the command line, wire pipelines, print."""
