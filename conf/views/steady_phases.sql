-- The steady phase of each recording: rates and lags are of it.
-- from_us: when it begins, in UTC microseconds since 1970
-- until_us: when it ends, exclusive
SELECT recording, from_us, until_us FROM text_of_steady_phases
