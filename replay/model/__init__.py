"""Kafka, once: what its classes do, without a clock and without I/O.

Each module is named and ordered as the classes that it stands for, so that it can be read beside
them. What a KIP changes is a few quoted lines and a flag there. What a log shows of it, and what it
leaves open, is the rules'.
"""
