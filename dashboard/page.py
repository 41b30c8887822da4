"""A recording as a page: what the server is, what its checks say, and six plots that share their time axis; where a
column was named, what the IDs in it tell.
"""

import html
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {
    "svg.hashsalt": "id_gen",
    # Text stays text: small, sharp, and to be found with the browser's search.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e8eb",
    "grid.linewidth": 0.6,
}

import matplotlib.pyplot as plt  # noqa: E402 (the backend comes first)
from matplotlib.dates import ConciseDateFormatter  # noqa: E402
from matplotlib.ticker import FuncFormatter, PercentFormatter  # noqa: E402
from recording import Recording, percentile  # noqa: E402

OURS, FAINT, LIMIT, STEP = "#1b7f5c", "#9aa5b1", "#c0392b", "#d98200"
CAUSES = ["#c0392b", "#d98200", "#8e5ea2", "#3c6e9f", "#7f8c8d", "#b5893c", "#5c8a8a", "#444444"]

# More workers than this are in the table alone.
MOST_BARS = 24

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1f2933; max-width: 1180px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: 0 } .about { color: #52606d; margin-top: .2em }
svg { width: 100%; height: auto } code { background: #f1f3f5; padding: .1em .3em; border-radius: 3px }
table { border-collapse: collapse; margin: 1em 0 }
td, th { text-align: left; padding: .25em 1em .25em 0; vertical-align: top }
.ok { color: #1b7f5c } .warning { color: #b36b00 } .error { color: #c0392b; font-weight: bold }
"""


def figure(recording: Recording) -> str:
    """The plots, as SVG."""
    canvas, axes = plt.subplots(3, 2, figsize=(11, 8.2), layout="constrained")
    _rate(axes[0, 0], recording)
    _lead(axes[0, 1], recording)
    _waits_over_time(axes[1, 0], recording)
    _histogram(axes[1, 1], recording)
    _sequence_use(axes[2, 0], recording)
    _refusals(axes[2, 1], recording)
    for each in (axes[0, 0], axes[0, 1], axes[1, 0], axes[2, 0], axes[2, 1]):
        each.set_xlim(recording.samples[0]["at"], recording.at[-1])
        each.set_xlabel("seconds")
        _mark_steps(each, recording)
    return _drawn(canvas)


def _drawn(canvas: plt.Figure) -> str:
    drawn = StringIO()
    canvas.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(canvas)
    return drawn.getvalue()


def html_page(recording: Recording, source: Path) -> str:
    last = recording.samples[-1]
    status = last["status"] or {}
    ids = sum(recording.rise("ids"))
    spent = sum(recording.seconds)
    about = (
        f"PostgreSQL {recording.about['server']}, worker {status.get('worker_id')}, layout {status.get('layout')}, "
        f"from {recording.about['began']} for {spent:.0f} s: {ids:,} IDs, "
        f"{sum(recording.rise('waits')):,} waits, {sum(map(sum, map(recording.rise, recording.causes))):,} refusals"
    )
    checks = "".join(
        f'<tr><td>{_text(check["name"])}</td><td class="{_text(check["status"])}">{_text(check["status"])}</td>'
        f"<td>{_text(check['found'])}</td><td>{_text(check['remedy'])}</td></tr>"
        for check in last["checks"] or []
    )
    plots = figure(recording)
    stored = _stored(recording.profile) if recording.profile else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>id_gen</title>
<style>{STYLE}</style>
<h1>id_gen</h1>
<p class="about">{_text(about)}</p>
{plots[plots.index("<svg") :]}
<table>
<tr><th>Check, at the end</th><th></th><th>Found</th><th>What to do</th></tr>
{checks}
</table>
{stored}<p class="about">To draw it again: <code>make dashboard RECORDING={_text(source)}</code></p>
</html>
"""


def _stored(profile: dict[str, Any]) -> str:
    """What the IDs of a column tell: when and by whom they were made, and what was found."""
    rows = profile["rows"]
    found = "".join(
        f"<tr><td>{_text(row['section'])} {_text(row['item'])}</td>"
        f'<td class="{_text(row["status"])}">{_text(row["status"])}</td>'
        f"<td>{_count(row['ids'])}</td>"
        f"<td>{_text(row['found'])}</td><td>{_text(row['remedy'])}</td></tr>"
        for row in rows
        if row["found"]
    )
    drawn = profile_figure(profile)
    return f"""<h2>IDs stored in {_text(profile["column"])}</h2>
{drawn[drawn.index("<svg") :]}
<table>
<tr><th>Of the IDs</th><th></th><th>IDs</th><th>Found</th><th>What to do</th></tr>
{found}
</table>
"""


def profile_figure(profile: dict[str, Any]) -> str:
    """When the IDs were made, which worker made how many, and how evenly they spread, as SVG."""
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in profile["rows"]:
        sections.setdefault(row["section"], []).append(row)
    canvas, axes = plt.subplots(1, 3, figsize=(11, 2.8), layout="constrained", width_ratios=[2, 1, 1])
    _made_when(axes[0], sections.get("time", []))
    _bars(axes[1], "IDs by worker", sections.get("worker", [])[:MOST_BARS], lambda row: row["ids"], "no worker is told")
    axes[1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    excess = lambda row: row["share"] * int(row["item"])  # noqa: E731
    _bars(axes[2], "Fullest of n shards, id % n", sections.get("modulo", []), excess, "no snowflake to divide")
    axes[2].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} x"))
    return _drawn(canvas)


def _count(ids: int | None) -> str:
    return "" if ids is None else f"{ids:,}"


def _made_when(axes: plt.Axes, rows: list[dict[str, Any]]) -> None:
    if not rows:
        axes.set_title("When the IDs were made")
        _nothing(axes, "no ID tells when it was made")
        return
    axes.set_title(f"When the IDs were made: IDs in {rows[0]['item']}")
    begins = [datetime.fromtimestamp(float(row["first_at"]), UTC) for row in rows]
    width = timedelta(seconds=float(rows[0]["last_at"]) - float(rows[0]["first_at"]))
    axes.bar(begins, [row["ids"] for row in rows], width=width, align="edge", color=OURS)
    if len(rows) == 1:
        # One bar would be as wide as the plot.
        axes.set_xlim(begins[0] - 3 * width, begins[0] + 4 * width)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _bars(
    axes: plt.Axes, title: str, rows: list[dict[str, Any]], height: Callable[[dict[str, Any]], float], otherwise: str
) -> None:
    """A bar for each item, in the colour of its status."""
    axes.set_title(title)
    if not rows:
        _nothing(axes, otherwise)
        return
    colours = [STEP if row["status"] == "warning" else OURS for row in rows]
    axes.bar(range(len(rows)), [height(row) for row in rows], color=colours, width=0.8)
    axes.set_xticks(range(len(rows)), [row["item"] for row in rows], rotation=45 * (len(rows) > 6), fontsize=7)
    axes.grid(axis="x", visible=False)


def _text(value: object) -> str:
    return html.escape("" if value is None else str(value))


def _rate(axes: plt.Axes, recording: Recording) -> None:
    axes.set_title("IDs a second")
    rates = recording.rate("ids")
    _area(axes, recording.at, rates)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    capacity = recording.about["ids_per_second"]
    if capacity and max(rates) > capacity / 4:
        _limit(axes, [recording.at[0], recording.at[-1]], [capacity] * 2, f"the layout has {_short(capacity)}")
    axes.set_ylim(bottom=0)


def _lead(axes: plt.Axes, recording: Recording) -> None:
    axes.set_title("Lead: how far IDs run ahead of the clock")
    leads = _seconds(recording.value("stat", "lead"))
    most = _seconds(recording.value("status", "max_lead"))
    _area(axes, recording.at, leads)
    axes.set_ylim(0, max(max(leads) * 1.15, 1e-3))
    if max(leads) > max(most) / 8:
        axes.set_ylim(top=max(*leads, *most) * 1.15)
    _limit(axes, recording.at, most, "id_gen.max_lead")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _span(value * 1000)))


def _waits_over_time(axes: plt.Axes, recording: Recording) -> None:
    axes.set_title("How long calls waited for the clock, second by second")
    shown = False
    for fraction, name, colour in ((0.5, "half of them at most", FAINT), (0.99, "99 of 100 at most", OURS)):
        points = [
            (at, min(found, _finite(buckets)))
            for at, buckets in zip(recording.at, recording.waits, strict=True)
            if (found := percentile(buckets, fraction)) is not None
        ]
        if points:
            shown = True
            axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=5 - 2 * fraction, label=name)
    if not shown:
        _nothing(axes, "no call had to wait")
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _span(value)))
    axes.legend(frameon=False, loc="upper left")


def _histogram(axes: plt.Axes, recording: Recording) -> None:
    buckets = recording.all_waits
    total = sum(waits for _, waits in buckets)
    axes.set_title(f"Waits by length: {total:,} in all")
    used = [number for number, (_, waits) in enumerate(buckets) if waits]
    if not used:
        _nothing(axes, "no call had to wait")
        return
    buckets = buckets[max(0, used[0] - 1) : used[-1] + 2]
    names = [_span(upper_bound) if math.isfinite(upper_bound) else "more" for upper_bound, _ in buckets]
    bars = axes.bar(range(len(buckets)), [waits for _, waits in buckets], color=OURS, width=0.9)
    axes.bar_label(bars, [_short(waits) if waits else "" for _, waits in buckets], fontsize=7)
    axes.set_xticks(range(len(buckets)), names, rotation=45, fontsize=7)
    axes.set_xlabel("at most")
    axes.grid(axis="x", visible=False)
    axes.set_yscale("log")
    axes.set_ylim(0.5, 3 * max(waits for _, waits in buckets))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _sequence_use(axes: plt.Axes, recording: Recording) -> None:
    axes.set_title("Sequence use: share of the IDs that the layout has")
    capacity = recording.about["ids_per_second"] or math.inf
    _area(axes, recording.at, [rate / capacity for rate in recording.rate("ids")], "each second")
    minute = [value or 0.0 for value in recording.value("status", "sequence_use")]
    axes.plot(recording.at, minute, color=FAINT, linewidth=1.6, label="busiest of the last minute")
    axes.axhline(1, color=LIMIT, linewidth=1, linestyle="--")
    axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.5))


def _refusals(axes: plt.Axes, recording: Recording) -> None:
    axes.set_title("Refusals a second, by cause")
    rates = {cause: recording.rate(cause) for cause in recording.causes}
    base = [0.0] * len(recording.at)
    for (cause, values), colour in zip(rates.items(), CAUSES, strict=False):
        if any(values):
            widths = [-0.85 * seconds for seconds in recording.seconds]
            name = cause.removeprefix("refused_")
            axes.bar(recording.at, values, bottom=base, width=widths, align="edge", color=colour, label=name)
            base = [below + value for below, value in zip(base, values, strict=True)]
    if any(base):
        axes.legend(frameon=False, loc="upper left")
    else:
        _nothing(axes, "no call was refused")


def _mark_steps(axes: plt.Axes, recording: Recording) -> None:
    """Where the clock was set: a line through every plot, and a word where the lead shows what it does."""
    for counter, word in (("clock_steps_back", "back"), ("clock_steps_forward", "forward")):
        for at, steps in zip(recording.at, recording.rise(counter), strict=True):
            if steps:
                axes.axvline(at, color=STEP, linewidth=1, linestyle=":")
                if axes.get_title(loc="left").startswith("Lead"):
                    name = {"s": f"clock {word}", "rotation": 90, "color": STEP, "fontsize": 7.5}
                    axes.text(at, 0.98, ha="right", va="top", transform=axes.get_xaxis_transform(), **name)


def _area(axes: plt.Axes, x: list[float], y: list[float], label: str | None = None) -> None:
    axes.plot(x, y, color=OURS, linewidth=1.4, label=label)
    axes.fill_between(x, y, color=OURS, alpha=0.15, linewidth=0)


def _limit(axes: plt.Axes, x: list[float], y: list[float], name: str) -> None:
    axes.plot(x, y, color=LIMIT, linewidth=1, linestyle="--", drawstyle="steps-pre")
    if max(y) <= axes.get_ylim()[1]:
        axes.annotate(name, (x[0], y[0]), xytext=(4, 3), textcoords="offset points", color=LIMIT, fontsize=8)


def _nothing(axes: plt.Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, ha="center", va="center", color=FAINT, transform=axes.transAxes)
    axes.set_yticks([])


def _seconds(milliseconds: list[float | None]) -> list[float]:
    return [(value or 0.0) / 1000 for value in milliseconds]


def _finite(buckets: list[tuple[float, int]]) -> float:
    return max(upper_bound for upper_bound, _ in buckets if math.isfinite(upper_bound))


def _short(number: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _span(milliseconds: float) -> str:
    if milliseconds == 0:
        return "0"
    for size, unit in ((60_000, "min"), (1_000, "s"), (1, "ms")):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds * 1000:.3g} µs"
