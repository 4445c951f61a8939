"""What pages are made of: figures, words, tables, charts, verdicts. Rules import it, never back."""
