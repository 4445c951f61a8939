"""Files of a rule's folder: a mistake is one sentence with the file, the key and what it needs."""

from pathlib import Path

import pytest
from recorded_logs import REPOSITORY

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import read_table, require_facts

RULE = REPOSITORY / "pipelines" / "rules" / "min_isr_acks"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("page.toml", "kip =", "kpi =", "unknown field `kpi`"),
        ("page.toml", 'role = "gain"', 'role = "win"', "'win' - at `$.headlines[0].role`"),
        ("page.toml", "proposal =", "paste =", "Expected one of `released` and `proposal`"),
        ("page.toml", "\nquery =", "\nqery =", "unknown field `qery` - at `$.show[0]`"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    file, text = tmp_path / name, (RULE / name).read_text("utf-8")
    file.write_text(text, "utf-8")
    assert read_table(file)
    file.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(UserError) as error:
        read_table(file)
    assert str(error.value).startswith(f"{file} cannot be read: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_facts_have_their_columns() -> None:
    require_facts("toy", ["recording", "requests", "in_use", "is_mixed", "clients"])
    with pytest.raises(UserError, match="the rule toy lacks the column in_use, is_m"):
        require_facts("toy", ["recording", "requests"])
