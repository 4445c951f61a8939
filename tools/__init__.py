"""What only set-up and development need: jars, the class archive, a local cluster."""
