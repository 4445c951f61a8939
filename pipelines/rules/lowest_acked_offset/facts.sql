-- Metadata writes. No release has the draft, and estimates and bounds are no protocols.
SELECT recording, count(*) AS requests, FALSE AS in_use, FALSE AS is_mixed
FROM metadata_write_outcomes WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
GROUP BY recording
