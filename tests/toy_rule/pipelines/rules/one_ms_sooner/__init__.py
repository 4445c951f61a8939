"""one_ms_sooner over an engine: all that a rule states, in as few words as it takes."""

from markupsafe import Markup

from kip_replay.pipelines.page import sections
from kip_replay.pipelines.page.decisions import Advice, Decision
from kip_replay.pipelines.page.reading import counted
from kip_replay.pipelines.page.values import RuleFigures
from kip_replay.pipelines.page.view import Detail, Head, Prose, Section
from kip_replay.pipelines.rules.steps import RuleSteps
from kip_replay.replay.one_ms_sooner import SOONER
from kip_replay.replay.one_ms_sooner.registration import RULE
from kip_replay.replay.one_ms_sooner.tables import SOONER_OUTCOMES

METRIC = "fetch_wait"


class Figures(RuleFigures):
    NAME = RULE.name
    SWEEP = "none"
    CURVES = ((METRIC, "all"),)
    QUERIES = {"verdicts": counted(SOONER_OUTCOMES.name, "'fetches'")}  # noqa: RUF012


def section(every, checks, limits) -> Section:
    def cells(one) -> list[str]:
        return sections.ms_cells(one.spread(METRIC, SOONER), of=["p50"])

    def detail(one) -> Detail:
        return Detail(one.recording, [], Markup("Sooner."), [], "", [])

    overview = "Waits", (Head(["recording", "median, ms"]),), cells

    def decide(one) -> Decision:
        return Decision(Advice.NOTHING_YET, "Every response would come sooner.")

    prose = Prose.of(RULE.name)
    return sections.section(every, checks, prose, overview, detail, lambda one: (1, 1), decide)


STEPS = RuleSteps(
    rule=RULE,
    figures=Figures,
    section=section,
)
