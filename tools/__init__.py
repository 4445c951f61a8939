"""What only set-up and development need: jars, printed pages, a cluster."""
