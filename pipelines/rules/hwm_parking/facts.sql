-- FETCHes of the metadata log that a leader responded to, and whether their senders ran KIP-1166: with
-- it a FETCH carries the replica's high watermark. Up to 1 % either way, a cluster ran one protocol.
SELECT recording, count(*) AS requests,
    100 * count(replica_high_watermark) >= 99 * count(*) AS in_use,
    100 * count(replica_high_watermark) > count(*)
        AND 100 * count(replica_high_watermark) < 99 * count(*) AS is_mixed,
    count(*) FILTER (completion = 'unexplained') AS unexplained
FROM fetch_parking_outcomes WHERE variant = 'recorded' AND parameter = 'none' GROUP BY recording
