"""Defines errors for the person who can put them right."""


class UserError(Exception):
    """Wrong usage or an unreadable recording.

    The message is one sentence that says what is wrong and what to do about it. Jobs print it after
    ``error:`` and exit with 2; nobody ever sees a stack trace for it.
    """


class IngestError(Exception):
    """Ingest's line accounting does not balance; nothing was committed, jobs exit with 1."""


class WriteConflictError(Exception):
    """Another job wrote to the same rows of a table at the same time; jobs exit with 1."""


class SparkStartError(RuntimeError):
    """Spark could not be started; the message is one sentence for the user."""
