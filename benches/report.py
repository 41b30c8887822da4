"""What a benchmark found, as tables on a terminal and in Markdown: ratios with their bounds, then figures.

What one run found is kept as JSON in results/, so that runs on several servers can be shown side by side.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

Row = tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """One table of figures."""

    title: str
    header: Row
    rows: list[Row]


@dataclass(frozen=True)
class Target:
    """A ratio of two figures of one run, and the bound it must keep."""

    text: str
    ratio: float
    at_most: bool
    bound: float | None = None

    @property
    def holds(self) -> bool:
        if self.bound is None:
            return True
        return self.ratio <= self.bound if self.at_most else self.ratio >= self.bound

    @property
    def limit(self) -> str:
        return "" if self.bound is None else f"{'≤' if self.at_most else '≥'} {self.bound:g}"

    @property
    def measured(self) -> str:
        return f"{self.ratio:.2f}{'' if self.holds else ', out of bounds'}"


def at_most(text: str, ratio: float, bound: float | None = None) -> Target:
    return Target(text, ratio, True, bound)


def at_least(text: str, ratio: float, bound: float | None = None) -> Target:
    return Target(text, ratio, False, bound)


@dataclass
class Report:
    """Everything one run found, and on what."""

    server: str
    version: str
    machine: str
    command: str
    sections: list[Section] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def add(self, section: Section, *targets: Target) -> None:
        """Adds a table, and shows it at once: a run takes minutes."""
        self.sections.append(section)
        self.targets.extend(targets)
        show(section)

    def replace(self, newer: "Report") -> None:
        """Takes from a newer run of some measurements what that has, for what was measured before."""
        # The words before the first comma say what was measured, those after it how much of it.
        names = {section.title.partition(",")[0] for section in newer.sections}
        texts = {target.text for target in newer.targets}
        self.sections = [each for each in self.sections if each.title.partition(",")[0] not in names] + newer.sections
        self.targets = [each for each in self.targets if each.text not in texts] + newer.targets

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> "Report":
        found = json.loads(path.read_text())
        found["sections"] = [Section(**section) for section in found["sections"]]
        found["targets"] = [Target(**target) for target in found["targets"]]
        return Report(**found)


def ratios(reports: list[Report]) -> Section:
    """The ratios of several servers, side by side."""
    limits = {target.text: target.limit for report in reports for target in report.targets}
    measured = {(report.server, target.text): target.measured for report in reports for target in report.targets}
    servers = [report.server for report in reports]
    rows = [(text, limit, *(measured.get((server, text), "") for server in servers)) for text, limit in limits.items()]
    return Section("Ratios", ("ratio", "must be", *servers), rows)


def markdown(reports: list[Report], in_full: str, plots: list[Path]) -> str:
    """The ratios of all servers and all figures of one of them, for each machine."""
    intro = "Times and ratios vary between machines; bounds do not. Medians, layout `wide` unless said otherwise."
    lines = ["# Benchmarks", "", intro, ""]
    for plot in plots:
        lines += [f"![{plot.stem.replace('-', ' ')}]({plot})", ""]
    for machine in dict.fromkeys(report.machine for report in reports):
        here = [report for report in reports if report.machine == machine]
        lines += [f"## {machine}", "", *(f"- `{each.command}`: {each.version}" for each in here), ""]
        figures = [section for report in here if report.server == in_full for section in report.sections]
        for section in (ratios(here), *figures):
            lines += markdown_section(section)
    return "\n".join(lines).rstrip() + "\n"


def markdown_section(section: Section) -> list[str]:
    rows = [section.header, ("---",) * len(section.header), *section.rows]
    return [f"### {section.title}", "", *map(markdown_row, rows), ""]


def markdown_row(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"


def show(section: Section) -> None:
    table = Table(*map(plain, section.header), title=section.title, title_justify="left")
    for row in section.rows:
        table.add_row(*map(plain, row))
    Console().print(table)


def plain(text: str) -> str:
    return text.replace("`", "")
