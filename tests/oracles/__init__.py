"""Readable engines that fast ones are held against: slow, and obviously the rule."""
