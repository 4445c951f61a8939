-- What lags up to a time follow from besides the log up to it: the phases until then.
SELECT least(from_us, $until_us + 1) AS from_us, least(until_us, $until_us + 1) AS until_us
FROM phases
