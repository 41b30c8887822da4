"""What a benchmark found, as tables on a terminal and in Markdown: figures, then ratios with their bounds and goals."""

from dataclasses import dataclass, field
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
    """A ratio of two figures of one run: the bound it must keep, and the goal it is to reach."""

    text: str
    ratio: float
    at_most: bool
    bound: float | None = None
    goal: float | None = None

    def within(self, limit: float | None) -> bool:
        if limit is None:
            return True
        return self.ratio <= limit if self.at_most else self.ratio >= limit

    @property
    def holds(self) -> bool:
        return self.within(self.bound)

    @property
    def row(self) -> Row:
        verdict = "NO" if not self.holds else "yes" if self.within(self.goal) else "short of the goal"
        return self.text, f"{self.ratio:.2f}", self.limit(self.bound), self.limit(self.goal), verdict

    def limit(self, limit: float | None) -> str:
        return "" if limit is None else f"{'≤' if self.at_most else '≥'} {limit:g}"


def at_most(text: str, ratio: float, bound: float | None = None, goal: float | None = None) -> Target:
    return Target(text, ratio, True, bound, goal)


def at_least(text: str, ratio: float, bound: float | None = None, goal: float | None = None) -> Target:
    return Target(text, ratio, False, bound, goal)


@dataclass
class Report:
    """Everything one run found."""

    where: str
    command: str
    sections: list[Section] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def add(self, section: Section, *targets: Target) -> None:
        """Adds a table, and shows it at once: a run takes minutes."""
        self.sections.append(section)
        self.targets.extend(targets)
        show(section)

    @property
    def summary(self) -> Section:
        rows = [target.row for target in self.targets]
        return Section("Ratios", ("ratio", "measured", "must be", "goal", "verdict"), rows)

    def markdown(self, plots: list[Path], base: Path) -> str:
        lines = [
            "# Benchmarks",
            "",
            f"Made by `{self.command}`. Absolute times vary between machines; ratios hold.",
            "",
        ]
        lines += [f"Machine: {self.where}. Layout `wide` unless said otherwise; medians.", ""]
        for plot in plots:
            lines += [f"![{plot.stem.replace('-', ' ')}]({plot.relative_to(base)})", ""]
        for section in [self.summary, *self.sections]:
            lines += [f"## {section.title}", "", markdown_row(section.header)]
            lines += [markdown_row(("---",) * len(section.header))]
            lines += [*map(markdown_row, section.rows), ""]
        return "\n".join(lines).rstrip() + "\n"


def markdown_row(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"


def show(section: Section) -> None:
    table = Table(*map(plain, section.header), title=section.title, title_justify="left")
    for row in section.rows:
        table.add_row(*map(plain, row))
    Console().print(table)


def plain(text: str) -> str:
    return text.replace("`", "")
