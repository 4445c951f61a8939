-- Outcomes that brokers can be held against, where they have racks: of a client whose zone is only stated
-- they know nothing.
SELECT * FROM closest_replica_outcomes
SEMI JOIN (SELECT DISTINCT recording FROM brokers WHERE rack IS NOT NULL) AS racks USING (recording)
WHERE parameter = 'none' AND (has_rack_id OR client_zone IS NULL)
