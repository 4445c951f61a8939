"""Numbers of partitions, whatever indexes a log has."""

import numpy as np
import pyarrow as pa

from kip_replay.replay.incremental_fetch.partitions import Partitions
from kip_replay.replay.kafka.messages.encoding import Ints


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def test_index_that_no_cluster_has_takes_no_room() -> None:
    numbers = Partitions()
    numbers.topic_numbers(pa.array(["a", "bb"]))
    odd = ints(2**31 - 1, -1, 4, 2**31 - 1)
    assert numbers.numbers(ints(0, 0, 0, 0), odd).tolist() == [0, 1, 2, 0]
    assert numbers.numbers(ints(0, 1), ints(-1, -1)).tolist() == [1, 3]
    assert numbers.index_of[:4].tolist() == [2**31 - 1, -1, 4, -1]
