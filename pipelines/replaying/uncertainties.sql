-- What gaps in logs leave open to each leader (node_id) of partitions. The active controller's log has
-- ALTER_PARTITIONs, heartbeats and configs. Where lines of it may be missing, and while a node's own
-- are, other lines still show a good deal:
--   * Another controller that responds to FETCHes of the metadata log all the time was the active one.
--   * Every change is a record of the metadata log. An idle controller appends one each $idle_us
--     (NoOpRecord, KIP-835): where a replica's offset rose by no more over a gap, nothing was changed.
--   * A member of an ISR that goes on fetching under the same epoch was neither fenced nor restarted.
--     Of one that pauses for longer than $pause_us, or comes back under another epoch, it is not known.
--   * A config is logged by the broker that it was sent to, too: it is lost only where one's log has a gap.
WITH logs AS (
    SELECT r.recording, r.node_id, max(unix_micros(completed_at)) AS last_us,
        min(min(unix_micros(received_at))) OVER (PARTITION BY r.recording) AS begins_us,
        max(max(unix_micros(completed_at))) OVER (PARTITION BY r.recording) AS ends_us
    FROM requests AS r SEMI JOIN log_gaps ON log_gaps.recording = r.recording
    GROUP BY r.recording, r.node_id
),
gaps AS (
    SELECT DISTINCT g.recording, g.node_id, after_at IS NULL AS begins_late,
        coalesce(unix_micros(after_at), begins_us) AS after_us,
        coalesce(unix_micros(before_at), ends_us) AS before_us
    FROM log_gaps AS g JOIN logs ON logs.recording = g.recording
),
of_voters AS (
    SELECT gaps.* FROM gaps SEMI JOIN voters
    ON voters.recording = gaps.recording AND voter = node_id
),
led AS (
    SELECT recording, node_id, replica_id, request_id, unix_micros(received_at) AS at_us,
        unix_micros(built_at) AS built_us, get(request_partitions, 0).fetch_offset AS fetch_offset
    FROM fetches SEMI JOIN of_voters ON of_voters.recording = fetches.recording
    WHERE is_cluster_metadata AND error_code = 0 AND size(request_partitions) > 0
        AND get(response_partitions, 0).error_code = 0
),
-- Pauses of what other controllers responded to, over each gap: there it may have been active.
others AS (
    SELECT g.recording, g.node_id, after_us, before_us, at_us
    FROM of_voters AS g JOIN led ON led.recording = g.recording AND led.node_id <> g.node_id
        AND at_us >= after_us - $pause_us AND at_us <= before_us + $pause_us
    UNION ALL
    SELECT recording, node_id, after_us, before_us, unnest([after_us - $pause_us - 1, before_us])
    FROM of_voters
),
pauses AS (
    SELECT *, lead(at_us) OVER (
        PARTITION BY recording, node_id, after_us ORDER BY at_us) AS next_us
    FROM others
),
unseen AS (
    SELECT recording, node_id, greatest(at_us, after_us) AS from_us,
        least(next_us, before_us) AS until_us
    FROM pauses
    WHERE next_us - at_us > $pause_us AND next_us > after_us AND at_us < before_us
),
-- FETCHes that follow a record at once, and how far those before were.
risen AS (
    SELECT *, lag(at_us) OVER of_replica AS before_us, lag(fetch_offset) OVER of_replica AS before_offset,
        lag(rise) OVER of_replica AS before_rise,
        lag(at_us) OVER of_replica - lag(at_us, 2) OVER of_replica AS period_us
    FROM (
        SELECT *, fetch_offset - lag(fetch_offset) OVER of_replica AS rise,
            at_us - lag(built_us) OVER of_replica AS waited_us
        FROM led
        WINDOW of_replica AS (
            PARTITION BY recording, node_id, replica_id ORDER BY at_us, request_id))
    WHERE rise > 0 AND waited_us <= $idle_slack_us
    WINDOW of_replica AS (PARTITION BY recording, node_id, replica_id ORDER BY at_us, request_id)
),
hidden AS (
    SELECT u.* FROM unseen AS u ANTI JOIN risen AS r
    ON r.recording = u.recording AND r.node_id = u.node_id
        AND r.before_us <= u.from_us AND r.at_us >= u.until_us
        AND before_rise = 1 AND abs(period_us - $idle_us) <= $idle_slack_us
        AND r.at_us - r.before_us <= $counted_us_max
        AND fetch_offset - before_offset <= (r.at_us - r.before_us + $idle_us // 2) // $idle_us
),
-- Followers' FETCHes beside these spans, and the next of each.
fetched AS (
    SELECT recording, node_id, replica_id, request_id, replica_epoch, at_us,
        lead(at_us) OVER of_follower AS next_us, lead(replica_epoch) OVER of_follower AS next_epoch
    FROM (
        SELECT DISTINCT f.recording, f.node_id, replica_id, request_id, replica_epoch,
            unix_micros(dequeued_at) AS at_us
        FROM fetches AS f JOIN hidden AS h ON h.recording = f.recording
            AND unix_micros(dequeued_at) >= from_us - 2 * $silence_us
            AND unix_micros(dequeued_at) <= until_us + 2 * $silence_us
        WHERE NOT is_cluster_metadata AND replica_id >= 0 AND error_code = 0)
    WINDOW of_follower AS (PARTITION BY recording, node_id, replica_id ORDER BY at_us, request_id)
),
absent AS (
    SELECT f.recording, f.node_id, replica_id, request_id, at_us,
        least(at_us + $pause_us, coalesce(next_us, $never_us) - 1) AS shown_us
    FROM fetched AS f JOIN logs ON logs.recording = f.recording AND logs.node_id = f.node_id
    WHERE coalesce(next_us, $never_us) - at_us > $pause_us AND at_us + $pause_us <= last_us
        OR replica_epoch >= 0 AND next_epoch >= 0 AND replica_epoch <> next_epoch
),
leaders AS (SELECT DISTINCT recording, node_id FROM produces),
uncertain AS (
    -- A node's own gap: who led, and who was caught up outside of the ISR.
    SELECT g.recording, g.node_id, 'own log' AS what, -1 AS broker_id,
        after_us AS from_us, after_us AS shown_us, before_us + $lag_us_max AS until_us,
        g.node_id AS gap_node_id, CAST(NULL AS VARCHAR) AS evidence_request_id
    FROM gaps AS g SEMI JOIN leaders USING (recording, node_id)
    WHERE NOT begins_late
    UNION ALL
    SELECT h.recording, l.node_id, 'metadata log', -1, from_us, from_us,
        until_us + 1000000, h.node_id, NULL
    FROM hidden AS h JOIN leaders AS l ON l.recording = h.recording
    UNION ALL
    SELECT a.recording, a.node_id, 'follower', replica_id, at_us, shown_us, NULL,
        max(h.node_id), request_id
    FROM absent AS a JOIN hidden AS h ON h.recording = a.recording
        AND from_us <= shown_us AND until_us >= at_us - $silence_us
    GROUP BY ALL
    UNION ALL
    SELECT h.recording, l.node_id, 'configs', -1, min(greatest(from_us, after_us)),
        min(greatest(from_us, after_us)), NULL, h.node_id, NULL
    FROM hidden AS h JOIN gaps AS g ON g.recording = h.recording
        AND after_us < until_us AND from_us < before_us
    JOIN leaders AS l ON l.recording = h.recording
    LEFT JOIN voters AS of_gap ON of_gap.recording = g.recording AND of_gap.voter = g.node_id
    LEFT JOIN voters AS combined ON combined.recording = l.recording AND combined.voter = l.node_id
    -- If a voter leads partitions, voters are brokers too.
    WHERE of_gap.voter IS NULL OR combined.voter IS NOT NULL
    GROUP BY h.recording, l.node_id, h.node_id, from_us
)
SELECT recording, node_id, what, broker_id, timestamp_micros(from_us) AS uncertain_from,
    timestamp_micros(shown_us) AS shown_at, timestamp_micros(until_us) AS uncertain_until,
    gap_node_id, evidence_request_id
FROM uncertain
