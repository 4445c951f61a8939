"""Tools of set-up and development alone: jars, printed pages, a cluster."""
