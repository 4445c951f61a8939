-- Which variant shows a cluster without KIP-1166 and which one with it: the recorded one where the cluster ran that protocol (or all but 1 % of its FETCHes did), else the replayed one.
-- before: variant without it
-- after: variant with it
WITH shares AS (
  SELECT recording,
    avg(CASE WHEN replica_high_watermark IS NULL THEN 0e0 ELSE 1e0 END) AS with_kip
  FROM fetch_parking_outcomes WHERE variant = 'recorded' AND parameter = 'none'
  GROUP BY recording
)
SELECT recording,
  CASE WHEN with_kip <= 0.01e0 THEN 'recorded' ELSE 'without_kip_1166' END AS before,
  CASE WHEN with_kip >= 0.99e0 THEN 'recorded' ELSE 'with_kip_1166' END AS after
FROM shares
