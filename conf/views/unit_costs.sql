-- What an event costs, as measured in a recording, and the recording's own size: what the formulas of pipelines/rules/<rule>/fleet.toml read, and what they must come to.
-- rule: rule whose formulas read it
-- kind: field (a size that another fleet has otherwise), cost (measured), before or after (a figure of a formula, as recorded or replayed)
-- name: name in the formulas, with its unit; of a figure its own
-- value: what is not known, or of too few events, has no row
-- count: FETCHes, heartbeats or appends behind the recording's values
SELECT
  -- fleet.toml: labels of the fields; defaults of those that have no row here; terms, each of those
  -- before it; formulas: what a figure is before and after. They are arithmetic (+ - * / parentheses
  -- and min) of fields, costs and terms.
  recording, rule, split_part(name, '__', 1) AS kind, split_part(name, '__', 2) AS name,
  value, count
FROM each_rule
