"""Kafka itself: its request log (``request_log``) and its messages (``messages``)."""
