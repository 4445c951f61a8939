"""Finds the rules that samples of a recording can answer, and what the others lack.

Each rule states in its ``needs.toml`` (``rule_files.Need``) what a log must show. One without such
a file is not listed.
"""

from dataclasses import dataclass, field

import duckdb

from kip_replay.pipelines.folders import of_rules
from kip_replay.pipelines.ingest.overview import Overview
from kip_replay.pipelines.rule_files import Need, Needs, read_toml


@dataclass
class Answerable:
    """A rule: sentences on what it lacks, what would let it know more, and what stays unknown."""

    rule: str
    missing: list[str] = field(default_factory=list)
    helpful: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def answerable(found: Overview) -> list[Answerable]:
    rules = []
    with found.database() as database:
        for file in of_rules("needs.toml"):
            rule = Answerable(file.parent.name)
            for need in read_toml(file, Needs).needs:
                if need.stated in found.recording.facts.get(rule.rule, ()):
                    continue  # the manifest has it
                if need.open:
                    rule.open += [text for (text,) in database.execute(need.open).fetchall()]
                elif lack := _lack(need, database, found):
                    (rule.helpful if need.helps else rule.missing).append(lack)
            rules.append(rule)
    return rules


def _lack(need: Need, database: duckdb.DuckDBPyConnection, found: Overview) -> str | None:
    """A sentence on what is not there, None where it is."""
    roles = need.of.split(",")
    nodes = [each.node.node_id for each in found.nodes if {*each.role.split(",")} & {*roles}]
    query = f"SELECT count(*) FROM (FROM {need.shows}) WHERE node_id IN (SELECT unnest(?))"
    row = database.execute(query, [nodes]).fetchone()
    if row and row[0]:
        return None
    ids = ", ".join(map(str, sorted(nodes)))
    where = f"in samples of node {ids}" if nodes else f"since no {roles[0]} has a log"
    return f"no {need.what} {where}: {need.how}"
