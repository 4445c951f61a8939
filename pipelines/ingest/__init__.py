"""Log files to typed tables: found, surveyed, parsed in parallel, each line accounted for once."""
