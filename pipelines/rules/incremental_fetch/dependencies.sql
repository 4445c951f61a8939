-- What outcomes up to a time follow from besides the log up to it: the names of topic ids.
SELECT topic_id, name FROM usable_names ORDER BY topic_id
