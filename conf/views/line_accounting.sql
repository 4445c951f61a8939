-- Line accounting of every recording: lines read = requests + other + rejected + repeated, or lines were lost.
-- nodes: nodes whose logs were read
-- balanced: the sum is right
SELECT recording,
  count(DISTINCT node_id) AS nodes,
  sum(bytes_read) AS bytes_read,
  sum(lines_read) AS lines_read,
  sum(requests) AS requests,
  sum(other) AS other,
  sum(rejected) AS rejected,
  sum(repeated) AS repeated,
  sum(lines_read) = sum(requests) + sum(other) + sum(rejected) + sum(repeated) AS balanced
FROM ingested_files GROUP BY recording
