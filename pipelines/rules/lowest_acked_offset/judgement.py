"""lowest_acked_offset: how near its claims and simulated heartbeats are to what clients saw.

The draft is in no release, so nothing is predicted of another recording.
"""

from __future__ import annotations

from kip_replay.pipelines.analysis.accuracy import Judgement, Tolerance, distribution
from kip_replay.replay.lowest_acked_offset import HEARTBEAT_INTERVAL, LOWEST_ACKED, RULE
from kip_replay.replay.outcomes import RECORDED, Verdict

#: METADATA of a broker whose image has no such topic (Errors.UNKNOWN_TOPIC_OR_PARTITION).
UNKNOWN_TOPIC = 3
#: Clients poll each broker again this long after its response, so they may see a topic so late.
POLL_MS = 30
#: How long a response may have taken, but for a broker that stands still ...
RESPONSE_MS = 70
#: ... whose clients give up after two seconds and poll again ...
FROZEN_POLL_MS = 2_000
#: ... until so long after it goes on.
THAWED_US = 3_000_000
#: A broker whose heartbeats are this far apart stood still in between.
STANDSTILL_US = 4_000_000
#: How near a sweep's interval must be to the recorded one to be held against it.
SAME_INTERVAL = 0.05

_WANTED = f"""
SELECT predicted_from, recorded_in, '{LOWEST_ACKED}' AS own_variant
FROM pairs WHERE predicted_from = recorded_in"""

# The stale window of CREATE_TOPICS by the evidence, beside what clients saw of it. By heartbeats it
# is what can be known, and far above what is: so it is shown and not judged. What clients saw is
# not known where a client of some broker never saw it.
_STALE_WINDOWS = f"""
WITH windows AS (
    SELECT recording, topic, requested_at,
           CASE WHEN count(visible_at) = count(*) THEN max(epoch_us(visible_at)) END
               - epoch_us(responded_at) AS value
    FROM client_observations JOIN phases USING (recording)
    WHERE operation = 'create' AND is_steady(requested_at)
    GROUP BY recording, topic, requested_at, responded_at
),
histogram AS (SELECT recording, value, count(*) AS occurs FROM windows GROUP BY ALL)
SELECT recording, variant, 'create_topics_' || metric AS metric, value, sample_count, unknown_count
FROM percentiles
WHERE rule = '{RULE}' AND parameter = 'none' AND group_value = 'CREATE_TOPICS'
    AND metric IN ('stale_window_p50', 'stale_window_p90')
UNION ALL BY NAME
SELECT recording, '{RECORDED}' AS variant, 'create_topics_stale_window_' || percentile AS metric,
       value_us / 1000 AS value, sample_count, unknown_count
FROM ({distribution("histogram", "recording")})
UNPIVOT INCLUDE NULLS (value_us FOR percentile IN (p50, p90))"""

# read_after_write simulated at the recorded heartbeat interval (the median from a heartbeat's
# response to the broker's next one) predicts that of the recorded heartbeats. Of several intervals
# that are near enough, the nearest.
_SIMULATED = f"""
WITH gaps AS (
    SELECT recording, epoch_us(received_at) - lag(epoch_us(built_at)) OVER (
               PARTITION BY recording, broker_id ORDER BY received_at, request_id) AS value
    FROM broker_heartbeats
),
histogram AS (
    SELECT recording, value, count(*) AS occurs FROM gaps WHERE value IS NOT NULL GROUP BY ALL
),
recorded AS (
    SELECT recording, p50 / 1000 AS recorded_ms FROM ({distribution("histogram", "recording")})
),
candidates AS (
    SELECT *, nullif(parameter_value, -1)::DOUBLE AS interval_ms,
           abs(interval_ms / recorded_ms - 1) AS apart
    FROM percentiles LEFT JOIN recorded USING (recording)
    WHERE rule = '{RULE}' AND variant = '{LOWEST_ACKED}'
        AND metric IN ('read_after_write_p50', 'read_after_write_p90') AND group_kind = 'all'
)
SELECT recording, CASE parameter WHEN 'none' THEN '{RECORDED}' ELSE variant END AS variant,
       'simulated_' || candidates.metric AS metric, value, sample_count, unknown_count
FROM candidates
WHERE parameter = 'none' OR (parameter = '{HEARTBEAT_INTERVAL}' AND apart <= {SAME_INTERVAL})
QUALIFY row_number() OVER (
    PARTITION BY recording, parameter, candidates.metric ORDER BY apart, interval_ms) = 1"""

_MEASURES = f"""
SELECT *, 'all' AS group_kind, 'all' AS group_value, 'ms' AS unit
FROM (({_STALE_WINDOWS}) UNION ALL BY NAME ({_SIMULATED}))"""

# Few recordings have what clients saw, or were made at an interval of the sweep. A prediction that
# is there and unknown is a miss, and stays.
_SHOWN = """
FROM side_by_side WHERE sample_count + unknown_count > 0 AND recorded IS NOT NULL"""

# A claim: a broker had applied a topic's creation. What denies it is a later METADATA response of
# that broker that it knows no such topic, until the topic's next deletion (it may have been deleted
# before, and created again). Claims about topics of which the broker never responded so are left
# out: none could be denied.
#
# It is denied by clients that saw the topic later than one poll after it. A client names a broker
# for its poll, and its library may use another one, so this is a rougher truth. A topic may be
# created more than once: the client's request nearest to the write is the one.
_SHARES = f"""
WITH topics_of AS (
    SELECT recording, request_id, api_name, error_code, received_at, unnest(resources) AS resource
    FROM metadata_writes WHERE api_name IN ('CREATE_TOPICS', 'DELETE_TOPICS')
),
created AS (
    SELECT recording, request_id, received_at AS created_at, resource.name AS topic
    FROM topics_of
    WHERE api_name = 'CREATE_TOPICS' AND error_code = 0
        AND resource.resource_type = 'topic' AND resource.error_code = 0
),
deleted AS (
    SELECT recording, resource.name AS topic, received_at AS deleted_at
    FROM topics_of WHERE api_name = 'DELETE_TOPICS'
),
claims AS (
    SELECT recording, request_id, broker_id, evidence, applied_at_latest, topic, created_at
    FROM metadata_write_visibility JOIN created USING (recording, request_id)
    WHERE variant = '{LOWEST_ACKED}' AND parameter = 'none'
        AND verdict = '{Verdict.REPLAYED}' AND applied_at_latest IS NOT NULL
),
denials AS (
    SELECT recording, topic, topics.node_id AS broker_id, dequeued_at
    FROM topics JOIN requests USING (recording, request_id)
    WHERE source = 'METADATA' AND api_name = 'METADATA' AND topics.error_code = {UNKNOWN_TOPIC}
),
until_deleted AS (
    SELECT claims.*, deleted_at
    FROM claims ASOF LEFT JOIN deleted ON claims.recording = deleted.recording
        AND claims.topic = deleted.topic AND claims.created_at < deleted.deleted_at
),
decided AS (
    SELECT recording, 'claims_no_broker_denied' AS metric, evidence, request_id, broker_id, topic,
           bool_and(applied_at_latest >= dequeued_at) AS holds
    FROM until_deleted JOIN denials USING (recording, topic, broker_id)
    WHERE deleted_at IS NULL OR dequeued_at < deleted_at
    GROUP BY ALL
),
standstills AS (
    SELECT recording, broker_id, epoch_us(received_at) AS until_us, lag(until_us) OVER (
               PARTITION BY recording, broker_id ORDER BY received_at, request_id) AS since_us
    FROM broker_heartbeats QUALIFY until_us - since_us > {STANDSTILL_US}
),
seen AS (
    SELECT claims.*, epoch_us(visible_at) AS visible_us
    FROM claims JOIN client_observations USING (recording, topic, broker_id)
    WHERE operation = 'create'
    QUALIFY row_number() OVER (
        PARTITION BY recording, request_id, broker_id, evidence, topic
        ORDER BY abs(epoch_us(requested_at) - epoch_us(created_at)), requested_at) = 1
),
in_time AS (
    SELECT recording, 'claims_not_before_clients_saw_it' AS metric, evidence,
           epoch_us(applied_at_latest) >= visible_us - 1000 * ({POLL_MS + RESPONSE_MS}
               + CASE WHEN stood_still THEN {FROZEN_POLL_MS} ELSE 0 END) AS holds
    FROM (
        SELECT *, EXISTS (
                   FROM standstills AS still
                   WHERE still.recording = seen.recording AND still.broker_id = seen.broker_id
                       AND visible_us BETWEEN since_us AND until_us + {THAWED_US}) AS stood_still
        FROM seen
    )
)
SELECT recording, metric, 'evidence' AS group_kind, evidence AS group_value,
       sum(holds) / count(*) AS value, count(*) AS sample_count
FROM (FROM decided UNION ALL BY NAME FROM in_time)
GROUP BY ALL"""

JUDGEMENT = Judgement(
    wanted=_WANTED,
    of_controllers=True,
    measures=_MEASURES,
    shares=_SHARES,
    shown=_SHOWN,
    tolerances=(
        Tolerance("claims_not_before_clients_saw_it", LOWEST_ACKED, True, 0.0, None),
        Tolerance("claims_no_broker_denied", LOWEST_ACKED, True, 0.0, None),
        *(
            Tolerance(f"simulated_read_after_write_{p}", LOWEST_ACKED, True, None, 0.10)
            for p in ("p50", "p90")
        ),
    ),
)
