-- The order of events on two nodes (replay/kafka/clocks.py), of clock_sums: pairs by their distance.
-- The hundredth of them that bounds most closely is left out: a line can be written late. Of less than
-- a hundred pairs, none is.
SELECT recording, before, after, kind, max(total) AS pairs,
    min(CASE WHEN up_to >= (total + 99) // 100 THEN gap_ms END) * 1000 AS gap_us
FROM (
    SELECT *, CAST(sum(pairs) OVER (PARTITION BY recording, before, after, kind) AS BIGINT) AS total,
        CAST(sum(pairs) OVER (
            PARTITION BY recording, before, after, kind ORDER BY gap_ms) AS BIGINT) AS up_to
    FROM clock_sums)
GROUP BY recording, before, after, kind
ORDER BY recording, before, after, kind
