"""lowest_acked_offset: how near its estimates and claims are to what brokers and clients saw.

The draft is in no release, so nothing is predicted of another recording. Truth is when brokers had
applied offsets (applied_observations) and when clients saw topics (client_observations).
"""

from kip_replay.pipelines.analysis.accuracy import FEW, Judgement, Tolerance, distribution
from kip_replay.replay.lowest_acked_offset import ESTIMATED, HEARTBEAT_INTERVAL, LOWEST_ACKED, RULE
from kip_replay.replay.lowest_acked_offset.events import STAMP_SLACK_US
from kip_replay.replay.lowest_acked_offset.evidence import FETCH_HIGH_WATERMARK, HEARTBEAT
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

# Topics as requests created and deleted them.
_TOPICS = """
topics_of AS (
    SELECT recording, request_id, api_name, error_code, received_at, unnest(resources) AS resource
    FROM metadata_writes WHERE api_name IN ('CREATE_TOPICS', 'DELETE_TOPICS')
),
created AS (
    SELECT recording, request_id, received_at AS created_at, resource.name AS topic
    FROM topics_of
    WHERE api_name = 'CREATE_TOPICS' AND error_code = 0
        AND resource.resource_type = 'topic' AND resource.error_code = 0
)"""

# The stale window of CREATE_TOPICS as estimated, beside what clients saw of it; the baseline is
# what heartbeats prove. What clients saw is not known where a client of some broker never saw it.
_STALE_WINDOWS = f"""
WITH windows AS (
    SELECT recording, topic, requested_at,
           CASE WHEN count(visible_at) = count(*) THEN max(epoch_us(visible_at)) END
               - epoch_us(responded_at) AS value
    FROM client_observations JOIN phases USING (recording)
    WHERE operation = 'create' AND is_steady(requested_at)
    GROUP BY recording, topic, requested_at, responded_at
),
histogram AS (SELECT recording, value, count(*) AS occurs FROM windows GROUP BY ALL),
replayed AS (
    FROM percentiles
    WHERE rule = '{RULE}' AND parameter = 'none' AND group_value = 'CREATE_TOPICS'
        AND metric IN ('stale_window_p50', 'stale_window_p90')
)
SELECT recording, '{LOWEST_ACKED}' AS variant, 'create_topics_' || metric AS metric, value,
       baseline, sample_count, unknown_count
FROM replayed LEFT JOIN (
    SELECT recording, metric, value AS baseline FROM replayed WHERE variant = '{LOWEST_ACKED}')
USING (recording, metric)
WHERE variant = '{ESTIMATED}'
UNION ALL BY NAME
SELECT recording, '{RECORDED}' AS variant, 'create_topics_stale_window_' || percentile AS metric,
       value_us / 1000 AS value, sample_count, unknown_count
FROM ({distribution("histogram", "recording")})
UNPIVOT INCLUDE NULLS (value_us FOR percentile IN (p50, p90))"""

#: Metrics that are an error by themselves.
_ERROR = "^(applied_error|clients_saw_it_later)"
# How far estimates are from when brokers had applied offsets, and from when clients saw topics:
# the latter later by a poll and its response. The baseline is what heartbeats prove.
_ERRORS = f"""
WITH {_TOPICS},
estimates AS (
    SELECT recording, broker_id, metadata_offset, applied_at, NULL AS proved_at,
           'applied_error' AS metric
    FROM applied_offsets WHERE variant = '{LOWEST_ACKED}' AND parameter = 'none'
    UNION ALL BY NAME
    SELECT recording, broker_id, offset_high AS metadata_offset, applied_at,
           applied_at_latest AS proved_at, 'applied_error_of_writes' AS metric
    FROM metadata_write_visibility v JOIN metadata_write_outcomes w USING (
        recording, variant, parameter, parameter_value, request_id)
    WHERE evidence = '{ESTIMATED}'
),
held AS (
    SELECT recording, metric, abs(epoch_us(applied_at) - epoch_us(true_at)) AS value,
           abs(epoch_us(proved_at) - epoch_us(true_at)) AS baseline
    FROM (
        SELECT e.*, t.applied_at AS true_at
        FROM estimates AS e ASOF JOIN applied_observations AS t
        ON e.recording = t.recording AND e.broker_id = t.broker_id
            AND e.metadata_offset <= t.metadata_offset
    )
    JOIN phases USING (recording)
    WHERE is_steady(true_at)
    UNION ALL BY NAME
    SELECT recording, 'clients_saw_it_later' AS metric,
           epoch_us(visible_at) - epoch_us(shown_at) AS value
    FROM (
        FROM metadata_write_visibility JOIN created USING (recording, request_id)
        JOIN client_observations USING (recording, topic, broker_id)
        WHERE evidence = '{ESTIMATED}' AND operation = 'create' AND visible_at IS NOT NULL
        QUALIFY row_number() OVER (
            PARTITION BY recording, request_id, broker_id, topic
            ORDER BY abs(epoch_us(requested_at) - epoch_us(created_at)), requested_at) = 1
    )
    JOIN phases USING (recording)
    WHERE is_steady(requested_at)
),
histogram AS (SELECT recording, metric, value, count(*) AS occurs FROM held GROUP BY ALL),
proved AS (
    SELECT recording, metric, baseline AS value, count(*) AS occurs
    FROM held WHERE metric = 'applied_error_of_writes' GROUP BY ALL
),
percentiles_of AS (
    SELECT e.recording, e.metric, e.sample_count, e.unknown_count, e.p50, e.p90,
           b.p50 AS baseline_p50, b.p90 AS baseline_p90
    FROM ({distribution("histogram", "recording, metric")}) AS e
    LEFT JOIN ({distribution("proved", "recording, metric")}) AS b USING (recording, metric)
)
SELECT recording, '{LOWEST_ACKED}' AS variant, metric || '_' || percentile AS metric,
       (value_us / 1000)::DOUBLE AS value, (baseline_us / 1000)::DOUBLE AS baseline,
       sample_count, unknown_count
FROM percentiles_of UNPIVOT INCLUDE NULLS (
    (value_us, baseline_us) FOR percentile IN (
        (p50, baseline_p50) AS p50, (p90, baseline_p90) AS p90))"""

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
FROM (
    ({_STALE_WINDOWS}) UNION ALL BY NAME ({_SIMULATED}) UNION ALL BY NAME ({_ERRORS})
)"""

# An error is held against none. Few recordings have what clients or brokers saw, or were made at an
# interval of the sweep; a prediction that is there and unknown is a miss, and stays. Few samples
# judge nothing.
_SHOWN = f"""
FROM (
    SELECT * REPLACE (
        sample_count + unknown_count >= {FEW} AS is_judged,
        CASE WHEN regexp_matches(metric, '{_ERROR}') THEN 0 ELSE recorded END AS recorded)
    FROM side_by_side WHERE sample_count + unknown_count > 0
) WHERE recorded IS NOT NULL"""

# A claim: a broker had applied a topic's creation. What denies it is a later METADATA response of
# that broker that it knows no such topic, until the topic's next deletion (it may have been deleted
# before, and created again). Claims about topics of which the broker never responded so are left
# out: none could be denied. Where brokers noted when they had applied an offset, a claim by their
# heartbeats or FETCHes is no earlier than that. (API_VERSIONS is not held against it: like METADATA
# it returns the new image while replicas are still created.)
#
# It is denied by clients that saw the topic later than one poll after it. A client names a broker
# for its poll, and its library may use another one, so this is a rougher truth. A topic may be
# created more than once: the client's request nearest to the write is the one.
_SHARES = f"""
WITH {_TOPICS},
deleted AS (
    SELECT recording, resource.name AS topic, received_at AS deleted_at
    FROM topics_of WHERE api_name = 'DELETE_TOPICS'
),
claims AS (
    SELECT recording, request_id, broker_id, evidence, applied_at_latest, topic, created_at
    FROM metadata_write_visibility JOIN created USING (recording, request_id)
    WHERE variant = '{LOWEST_ACKED}' AND parameter = 'none' AND evidence <> '{ESTIMATED}'
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
),
proofs AS (
    SELECT v.recording, 'claims_not_before_brokers_applied' AS metric, evidence,
           epoch_us(applied_at_latest) >= epoch_us(t.applied_at) - {STAMP_SLACK_US} AS holds
    FROM (
        SELECT v.*, offset_high
        FROM metadata_write_visibility v JOIN metadata_write_outcomes w USING (
            recording, variant, parameter, parameter_value, request_id)
        WHERE evidence IN ('{HEARTBEAT}', '{FETCH_HIGH_WATERMARK}')
            AND v.verdict = '{Verdict.REPLAYED}'
    ) AS v
    ASOF JOIN applied_observations AS t ON v.recording = t.recording
        AND v.broker_id = t.broker_id AND v.offset_high <= t.metadata_offset
)
SELECT recording, metric, 'evidence' AS group_kind, evidence AS group_value,
       sum(holds) / count(*) AS value, count(*) AS sample_count
FROM (FROM decided UNION ALL BY NAME FROM in_time UNION ALL BY NAME FROM proofs)
GROUP BY ALL"""

#: How far medians and 90th percentiles may be off: of the estimate 10 and 60 ms; clients see a
#: topic up to a poll and its response later.
_LIMITS_MS = {
    "applied_error": (10.0, 60.0),
    "applied_error_of_writes": (10.0, 60.0),
    "clients_saw_it_later": (POLL_MS + 20.0, POLL_MS + RESPONSE_MS),
    "create_topics_stale_window": (POLL_MS + 20.0, POLL_MS + RESPONSE_MS),
}

_BOUNDS = (
    "claims_not_before_clients_saw_it",
    "claims_not_before_brokers_applied",
    "claims_no_broker_denied",
)

JUDGEMENT = Judgement(
    wanted=_WANTED,
    of_controllers=True,
    measures=_MEASURES,
    shares=_SHARES,
    shown=_SHOWN,
    tolerances=(
        *(Tolerance(metric, LOWEST_ACKED, True, 0.0, None) for metric in _BOUNDS),
        *(
            Tolerance(f"{metric}_{p}", LOWEST_ACKED, True, limit, None)
            for metric, limits in _LIMITS_MS.items()
            for p, limit in zip(("p50", "p90"), limits, strict=True)
        ),
    ),
    bounds=_BOUNDS,
)
