-- The order of events on two nodes (replay/kafka/clocks.py), of clock_sums: pairs by their distance.
-- A line is written late where its thread does not run between the end of a send and the line, as on
-- a loaded machine or in a pause of the JVM; derived times are late by as long. So the twentieth of
-- the pairs that bounds most closely is left out, of up to twenty none; and of forwarded requests,
-- which are hardly a millisecond apart, so that any late line shows, two more. gap_us is null where
-- no pair is left.
SELECT recording, before, after, kind, max(total) AS pairs,
    min(CASE WHEN up_to >= (total + 19) // 20 + CASE WHEN kind = 'forwarded' THEN 2 ELSE 0 END
        THEN gap_ms END) * 1000 AS gap_us
FROM (
    SELECT *, CAST(sum(pairs) OVER (PARTITION BY recording, before, after, kind) AS BIGINT) AS total,
        CAST(sum(pairs) OVER (
            PARTITION BY recording, before, after, kind ORDER BY gap_ms) AS BIGINT) AS up_to
    FROM clock_sums)
GROUP BY recording, before, after, kind
ORDER BY recording, before, after, kind
