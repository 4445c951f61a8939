-- The brokers of a recording ran the KIP if their FETCHes carry a high watermark. Two recordings of
-- one protocol show how much two runs differ, and predict nothing: they are not judged.
WITH own AS (
    SELECT recording, CASE WHEN bool_or(replica_high_watermark IS NOT NULL)
        THEN 'with_kip_1166' ELSE 'without_kip_1166' END AS variant
    FROM fetch_parking_outcomes WHERE variant = 'recorded' GROUP BY recording
)
SELECT predicted_from, recorded_in, own.variant AS own_variant,
    predicted_from = recorded_in OR ran.variant <> own.variant AS is_judged
FROM pairs
JOIN own ON own.recording = recorded_in
LEFT JOIN own AS ran ON ran.recording = predicted_from
