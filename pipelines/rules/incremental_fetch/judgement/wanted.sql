-- Brokers ran sessions if some recorded FETCH is not full. Two recordings of one protocol show how
-- much two runs differ, and predict nothing: they are left out.
WITH own AS (
    SELECT recording,
        CASE WHEN bool_or(NOT is_full) THEN 'incremental' ELSE 'full' END AS variant
    FROM fetch_session_outcomes WHERE variant = 'recorded' AND parameter = 'none' GROUP BY recording
)
SELECT predicted_from, recorded_in, TRUE AS is_judged,
    CASE WHEN predicted_from = recorded_in THEN 'known/' ELSE '' END || own.variant AS own_variant
FROM pairs
JOIN own ON own.recording = recorded_in
JOIN own AS ran ON ran.recording = predicted_from
WHERE predicted_from = recorded_in OR ran.variant <> own.variant
