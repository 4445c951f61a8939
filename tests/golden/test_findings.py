"""What stands out in recordings is what was done to their clusters, and nothing else."""

import pytest

from .recorded import session

FINDINGS = {
    "acks-not-enough": "lagging_follower 13 494 of 498; "
    "failing_client producer-3 and 3 more PRODUCE: NOT_ENOUGH_REPLICAS 119 of 886",
    "sessions-on": "no_fetch_session consumer-9 2124688 of 2465502",
}


@pytest.mark.golden
@pytest.mark.parametrize("name", FINDINGS)
def test_findings_are_what_was_done(name: str) -> None:
    each = "concat_ws(' ', code, subject, detail, count, 'of', population)"
    with session(name, "min_isr_acks", "incremental_fetch") as database:
        query = f"SELECT string_agg({each}, '; ' ORDER BY rank) FROM findings"
        assert database.execute(query).fetchone() == (FINDINGS[name],)
