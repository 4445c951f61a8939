"""Golden tests: recordings of real brokers, read by a reader of their own."""
