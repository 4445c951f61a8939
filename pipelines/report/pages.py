"""The pages of a report: one for each cluster as recorded, with what is the matter with its logs.

Recordings that are compared with each other stand on one page; no sentence is about two recordings,
but where a prediction from one is held against the other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kip_replay.pipelines.page import accuracy, words
from kip_replay.pipelines.page.decisions import Advice, Decision
from kip_replay.pipelines.page.values import RuleFigures
from kip_replay.pipelines.page.view import Alert, Beside, Detail, Page, Section
from kip_replay.pipelines.report import logs
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.steps import RuleSteps
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.log_tables import LOG_TABLES
from kip_replay.replay.other_clocks import CLOCKS_DIFFER

#: The configuration: sections of settings, by name.
Config = Mapping[str, Mapping[str, Any]]
#: Reasons for which outcomes are unknown since logs are damaged.
DAMAGED = (LOG_GAP, CLOCKS_DIFFER)
#: Checks of which ``Logs.warnings`` has a sentence anyway.
_IN_WARNINGS = frozenset(
    {
        "log_has_no_hole",
        "every_node_has_its_log",
        "clocks_agree",
        "no_line_is_rejected",
        "no_file_is_damaged",
    }
)
#: Sentences on what is the matter with the logs of a recording.
MOST_ALERTS = 20


def pages(report: Report, config: Config) -> list[Page]:
    """The pages, in the order of the recordings. ``config``: the limits of decisions."""
    groups = report.compared
    single = len(groups) == 1
    return [
        _page(report, names, "" if single else f"page-{number}", config)
        for number, names in enumerate(groups, start=1)
    ]


def _page(report: Report, names: Sequence[str], page: str, config: Config) -> Page:
    read = [one for one in report.logs if one.recording in names]
    checks = [check for check in report.checks if check.recorded_in in names]
    prefix = f"{page}-" if page else ""
    sections = []
    for steps in RULES:
        if steps.name in report.figures:
            every = [one for one in report.figures[steps.name] if one.recording in names]
            of_rule = [check for check in checks if check.rule == steps.name]
            made = steps.section(every, of_rule, config.get(steps.name, {}))
            tables = {table.name for table in steps.outcomes}
            decisions = {
                one.recording: _upheld(made.decisions[one.recording], one, report, tables, config)
                for one in every
            }
            details = [_whole(detail, steps, report) for detail in made.details]
            sections.append(replace(made, decisions=decisions, page=prefix, details=details))
    questions = [(section.prose.rule, section.prose.question) for section in sections]
    return Page(
        page,
        names,
        _cluster(report, read),
        [alert for one in read for alert in _alerts(one, report, sections)],
        sections,
        accuracy.view(checks, questions),
        logs.view(read),
        [(name, report.traffic[name]) for name in names if name in report.traffic],
    )


def _whole(detail: Detail, steps: RuleSteps, report: Report) -> Detail:
    """With what happens over time, curves of what sweeps vary, and what was slowest."""
    key = steps.name, detail.name
    [one] = [one for one in report.figures[steps.name] if one.recording == detail.name]
    slowest = [report.slowest[key]] if key in report.slowest else []
    drawn = [*report.over_time.get(key, ())]
    swept = [Beside(steps.curves(one))] if steps.curves else []
    return detail._replace(blocks=[*drawn, *detail.blocks, *swept, *slowest])


def _cluster(report: Report, read: Sequence[Logs]) -> str:
    """What is known of the cluster: its id, and the Kafka versions of its recordings."""
    rows = (row for one in read for row in report.clusters.get(one.recording, ()))
    ids = dict.fromkeys(row["cluster_id"] for row in rows)
    named = [f"cluster {words.shortened(name, 60)}" for name in [*ids][:3]]
    versions = dict.fromkeys(one.version for one in read if one.version)
    return ", ".join([*named, *versions])


_GROWING = (
    "Too little is final yet: these logs still grow. Run again later, or close them with --final."
)


def _upheld(
    decision: Decision, one: RuleFigures, report: Report, tables: Collection[str], config: Config
) -> Decision:
    """The verdict, or why it is withdrawn: it rests on what the logs lack, or on wrong tables."""
    most = config.get("report", {}).get("damaged_share_max", 0.0)
    share = one.share_unknown_for(DAMAGED)
    failed = report.failures.get(one.recording, ())
    failed = [row for row in failed if row["expectation"] not in _IN_WARNINGS]
    wrong = {row["table_name"] for row in failed if row["severity"] == "critical"}
    wrong &= {*tables, *(table.name for table in LOG_TABLES)}
    lacking = _incomplete(one, report)
    if share <= most and not wrong and not lacking:
        growing = {row["rule"] for row in report.growing.get(one.recording, ())}
        if decision.advice is Advice.NOT_ENOUGH and one.NAME in growing:
            return Decision(Advice.NOT_ENOUGH, _GROWING)
        return decision
    reasons = []
    if share > most:
        reasons.append(
            f"{words.number(share * 100, 1)} % of its outcomes rest on lines that are missing or "
            f"on clocks that differ (at most {words.number(most * 100, 1)} %: "
            "report.damaged_share_max)"
        )
    if lacking:
        reasons.append(f"it lacks what the log of node {words.joined(lacking)} would add")
    if wrong:
        reasons.append(f"checks of {words.joined(sorted(wrong))} failed")
    text = f"Withdrawn: {' and '.join(reasons)}."
    return Decision(Advice.NOT_ENOUGH, text, is_withdrawn=True)


def _incomplete(one: RuleFigures, report: Report) -> list[str]:
    """Nodes that rates are sums over, or would be, whose log is missing or ends with damage."""
    name = one.recording
    over = {row["node_id"] for row in report.summed.get(name, ()) if row["rule"] == one.NAME}
    brokers = {row["broker_id"] for row in report.brokers.get(name, ())}
    [read] = [each for each in report.logs if each.recording == name]
    lacking = over & {node["node_id"] for node in read.nodes if node.get("damage")}
    if over & brokers:
        lacking |= brokers & {gap["node_id"] for gap in read.gaps if gap["evidence"] == "no_log"}
    return [str(node) for node in sorted(lacking)]


def _alerts(one: Logs, report: Report, sections: Sequence[Section]) -> Iterator[Alert]:
    """What is the matter with a recording, and the verdicts that are withdrawn for it."""
    every = [Alert(text) for text in one.warnings]
    for row in report.failures.get(one.recording, ()):
        if row["expectation"] not in _IN_WARNINGS:
            rows = words.count(row["failing_rows"], "row")
            text = (
                f"recording {one.recording!r}: {rows} of {row['table_name']} failed the check "
                f"{row['expectation']}; expected: {row['says']}"
            )
            every.append(Alert(text, row["severity"] == "critical"))
    yield from every[:MOST_ALERTS]
    if len(every) > MOST_ALERTS:
        yield Alert(f"{len(every) - MOST_ALERTS} more of recording {one.recording!r}")
    withdrawn = [s.prose.short for s in sections if s.decisions[one.recording].is_withdrawn]
    if withdrawn:
        named = words.joined([f"“{name}”" for name in withdrawn])
        verdicts = "verdicts" if len(withdrawn) > 1 else "verdict"
        yield Alert(f"recording {one.recording!r}: this withdraws the {verdicts} on {named}")
