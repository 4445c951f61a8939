"""What only set-up and development need: jars, class archive, printed pages, a cluster."""
