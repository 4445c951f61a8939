"""Times, limits and shares of min_isr_acks: Kafka's settings, measurements, and choices.

One that names neither a setting nor a measurement is a choice, for the reason beside it.
"""

#: A partition that no line names for so long is forgotten; lines of METADATA name all that exist.
SILENT_US = 24 * 3_600_000_000
#: A broker that stops is taken out of ISRs at most this long before its last FETCH.
STOPPING_US = 2_000_000
#: While ISRs may have grown unseen: how often a FETCH of a follower outside of them counts.
TICK_US = 1_000_000
#: From the last response of a handler to its end. Where no consumer is parked, 0.2 to 0.7 ms pass
#: (medians of recordings of Kafka 4.0 to 4.2), half of the time of a handler without a pause.
AFTER_RESPONSE_US = 500
#: fetch.min.bytes that any record satisfies.
ENOUGH_BYTES = 1
#: Sessions remembered, the last used: ten times Kafka's max.incremental.fetch.session.cache.slots.
SESSIONS_KEPT = 10_000
#: A FETCH or PRODUCE whose line is missing may have taken effect so long before it was written.
WRITTEN_US_MAX = 1_000_000
#: How long after its timeout a batch may still be followed, for its exposure and last offset.
FOLLOWED_US_MAX = 60_000_000
#: Lines so far apart may be out of order.
REORDER_US_MAX = 5_000_000
#: From when a node learns of a commit until all its partitions apply it: most on a cold broker.
APPLY_US_MAX = 200_000
#: METADATA that contradicts what is known counts if that is older: nodes may return an old state.
STALE_US = 2_000_000
#: A cycle is a pause if it is so much longer than the shortest of the last ``RECENT``: the follower
#: stopped, or the leader did. Whoever waits for a pause waits to its end.
PAUSE_US, RECENT = 200_000, 64
#: A cycle that is drawn for a time depends on the log up to this long after it.
LOOKAHEAD_US = 10_000_000
#: Cycles that tell the distance: more than a burst lasts, fewer than distances stay the same for.
IN_A_ROW = 8
#: A PRODUCE that comes so long after the response before it waited for none.
OWN_US = 20_000
#: A wait this long follows from the ISR and not from when FETCHes come: it ends when it does in the
#: replay of the request alone.
LONG_WAIT_US = 1_000_000
#: Where between a PRODUCE's arrival and the end of its handler a parked FETCH gets its response: of
#: followers' FETCHes that got records while a single PRODUCE was handled, the FETCH's built_at less
#: the PRODUCE's received_at, over its handled_at less that. Medians of 13 leaders' logs of Kafka
#: 4.0 and 4.1 are 0.63 to 0.80, theirs is 0.71.
WOKEN_AT = 0.7
#: Cycles of a follower until its leader is warm. They get shorter with their number, not with time
#: (in clusters of seven times the load as well), steeply up to the 300th, little from the 500th on:
#: medians of a hundred cycles (from a response's built_at until the next FETCH is noted) of eight
#: followers in acks-varying and office-4.1 are 15 to 69 ms up to the 100th, 5.6 to 15 ms from the
#: 500th and 2.4 to 13 ms from the 1,000th on.
WARM = 500
