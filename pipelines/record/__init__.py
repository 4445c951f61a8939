"""Records request logs of a running cluster: the one part of this program that touches brokers.

* ``cluster`` speaks to brokers and controllers, each at its own address: who they are, the level of
  their request logger, and the polls by which a log describes itself.
* ``session`` is a recording from the undo it prints first to the manifest it writes last. It runs
  for each node the command whose standard output is the node's log.

A level is changed once these commands run, and set back however the recording ends. What
the process cannot do itself (it was killed, a node cannot be reached) is a command it has printed.
"""
