"""Outcomes of one_ms_sooner."""

from kip_replay.replay.table import (
    AT,
    MS,
    RECORDING,
    REQUEST_ID,
    VERDICT,
    WHAT_IF,
    WHAT_IF_KEY,
    Column,
    Table,
)

SOONER_OUTCOMES = Table(
    "sooner_outcomes",
    "one_ms_sooner: how long each FETCH waits",
    (
        RECORDING,
        *WHAT_IF,
        REQUEST_ID,
        Column("built_at", AT, "the response was built"),
        Column("wait_ms", MS, "until the response"),
        *VERDICT,
    ),
    key=(*WHAT_IF_KEY, "request_id"),
)
