-- Lines whose stamps cannot be where they are, and what shows it: stray_stamps.py has the reasons.
-- requests: what a run has read of some files of one recording. Times are in microseconds.
CREATE TEMP MACRO shown(us) AS strftime(make_timestamp(us), '%Y-%m-%d %H:%M:%S');
WITH lines AS (
  SELECT node_id, source_file, line_number, epoch_us(completed_at) AS at_us, connection, is_forwarded,
    CAST(correlation_id AS BIGINT) AS id
  FROM requests
  -- Not where one line of JSON holds many: they have no order there.
  WHERE (node_id, source_file) NOT IN (
    SELECT (node_id, source_file) FROM requests
    GROUP BY node_id, source_file HAVING count(DISTINCT line_number) < count(*))
), beside AS (
  SELECT *, at_us - lag(at_us) OVER of_file AS before_step_us,
    lead(at_us) OVER of_file - at_us AS after_step_us,
    CASE WHEN line_number - lag(line_number) OVER of_connection <= 1000 AND NOT is_forwarded
      THEN lag(at_us) OVER of_connection END AS earlier_us,
    CASE WHEN lead(line_number) OVER of_connection - line_number <= 1000 AND NOT is_forwarded
      THEN lead(at_us) OVER of_connection END AS later_us,
    lag(id) OVER of_connection AS earlier_id, lead(id) OVER of_connection AS later_id
  FROM lines
  WINDOW of_file AS (PARTITION BY node_id, source_file ORDER BY line_number),
    of_connection AS (
      PARTITION BY node_id, source_file, is_forwarded, connection ORDER BY line_number)
), near AS (
  -- Lines around a step are judged; the neighbours of these are needed beside them.
  SELECT *, max(before_step_us < -2000000 OR before_step_us > 1800000000)
      OVER (of_file ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS is_judged,
    max(before_step_us < -2000000 OR before_step_us > 1800000000)
      OVER (of_file ROWS BETWEEN 10 PRECEDING AND 10 FOLLOWING) AS is_near,
    -- Correlation ids begin again after 2^32: differences from -2^31 to 2^31.
    (id - earlier_id + 6442450944) % 4294967296 - 2147483648 AS earlier_ids,
    (later_id - id + 6442450944) % 4294967296 - 2147483648 AS later_ids
  FROM beside
  WINDOW of_file AS (PARTITION BY node_id, source_file ORDER BY line_number)
), sorted AS (
  SELECT *,
    list_sort(list(at_us) OVER (of_file ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)) AS before,
    list_sort(list(at_us) OVER (of_file ROWS BETWEEN 1 FOLLOWING AND 5 FOLLOWING)) AS after,
    list_sort(list(abs(coalesce(before_step_us, 0)))
      OVER (of_file ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING)) AS steps
  FROM near
  WHERE is_near
  WINDOW of_file AS (PARTITION BY node_id, source_file ORDER BY line_number)
), medians AS (
  -- Of an even number both middle ones count. The first line has none before, the last none after.
  SELECT *, before[(len(before) + 1) // 2] AS before_us, after[(len(after) + 1) // 2] AS after_us,
    least(before[(len(before) + 1) // 2], after[(len(after) + 1) // 2]) - at_us AS behind_us,
    at_us - greatest(before[len(before) // 2 + 1], after[len(after) // 2 + 1]) AS ahead_us,
    -- In a slow log, the last line before its clock is set lies three steps from the median.
    4 * steps[(2 * len(steps) + 1) // 3] AS usual_us
  FROM sorted
  WHERE is_judged AND len(steps) > 5
), contradicted AS (
  -- What contradicts the lines on the other side too is stray itself, or the clock was set.
  SELECT *,
    sign(earlier_ids) * (at_us - earlier_us) < -2000000
      AND sign(earlier_ids) * (coalesce(after_us, earlier_us) - earlier_us) >= -2000000
      OR after_us IS NULL AND abs(earlier_ids) BETWEEN 1 AND 10
      AND abs(at_us - earlier_us) > 1800000000 AS by_earlier,
    sign(later_ids) * (later_us - at_us) < -2000000
      AND sign(later_ids) * (later_us - coalesce(before_us, later_us)) >= -2000000
      OR before_us IS NULL AND abs(later_ids) BETWEEN 1 AND 10
      AND abs(later_us - at_us) > 1800000000 AS by_later
  FROM medians
)
SELECT node_id, source_file, line_number, CASE WHEN by_earlier OR by_later
  THEN shown(at_us) || ' has the correlation id ' || id || ' on a connection that has '
    || if(by_earlier, earlier_id, later_id) || ' at ' || shown(if(by_earlier, earlier_us, later_us))
  ELSE shown(at_us) || ' is between ' || shown(before_us) || ' and ' || shown(after_us) END
  || ' UTC' AS why
FROM contradicted
WHERE (by_earlier OR by_later) AND greatest(behind_us, ahead_us) > greatest(2000000, usual_us)
    -- At an end: alone there, and what contradicts it is not.
    AND (before_us IS NOT NULL OR abs(after_step_us) > greatest(2000000, usual_us)
      AND abs(at_us - after_us) > abs(later_us - after_us))
    AND (after_us IS NOT NULL OR abs(before_step_us) > greatest(2000000, usual_us)
      AND abs(at_us - before_us) > abs(earlier_us - before_us))
  OR before_us IS NOT NULL AND after_us IS NOT NULL
    AND (greatest(behind_us, ahead_us) > greatest(1800000000, usual_us)
      OR ahead_us > greatest(30000000, usual_us))
ORDER BY node_id, source_file, line_number
