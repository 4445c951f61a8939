"""The oracle of min_isr_acks: the rule as objects and lists, an event at a time.

``replay.min_isr_acks`` was this, and is now the same over arrays. What is written here is slow and
plain: a ``PartitionLeader`` per partition, a ``Level`` with each of its passings, ``Consumers`` in
sets. Tests feed both the same events and compare every row. Events, brokers and configs are the
rule's own; the theory of operation is in its docstring too.
"""
