"""The report: one HTML file on what each rule would do to a cluster, and how sure that is."""
