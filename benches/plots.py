"""The figures at a glance, as SVG: what a call costs, how it scales, and what a table full of keys costs."""

from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "id_gen"

import matplotlib.pyplot as plt  # noqa: E402 (the backend comes first)
from crowds import CLIENTS, SINGLE, Rates  # noqa: E402
from report import plain  # noqa: E402
from tables import Load, typical  # noqa: E402

OURS, RIVALS = "#1b7f5c", "#9aa5b1"
OUR_CALLS = {"`snowflake_next()`", "`uuidv7()`"}


def colour(name: str) -> str:
    return OURS if name in OUR_CALLS else RIVALS


def save(figure: plt.Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def call_costs(cost: dict[str, float], machine: str, path: Path) -> None:
    shown = {name: ns for name, ns in cost.items() if "empty" not in name and "(id)" not in name and "(ts)" not in name}
    names = sorted(shown, key=shown.__getitem__, reverse=True)
    figure, axes = plt.subplots(figsize=(8, 3.6))
    bars = axes.barh([plain(name) for name in names], [shown[name] for name in names], color=[*map(colour, names)])
    axes.bar_label(bars, fmt="%.0f ns", padding=3)
    axes.set_xscale("log")
    axes.set_xlim(right=max(shown.values()) * 3)
    axes.set_xlabel("nanoseconds a call (logarithmic)")
    axes.set_title(f"One ID, {machine}")
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def scaling(bulk: Rates, machine: str, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 3.6))
    for name in SINGLE:
        rates = [median(bulk[name, clients]) / 1e6 for clients in CLIENTS]
        axes.plot(range(len(CLIENTS)), rates, marker="o", label=plain(name), color=colour(name),
                  linestyle="--" if "uuid" in name else "-")  # fmt: skip
    axes.set_xticks(range(len(CLIENTS)), [str(clients) for clients in CLIENTS])
    axes.set_xlabel("clients")
    axes.set_ylabel("million IDs a second")
    axes.set_ylim(bottom=0)
    axes.set_title(f"2,000 IDs a statement, {machine}")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def loads(runs: dict[str, list[Load]], rows: int, machine: str, path: Path) -> None:
    load = {name: typical(each) for name, each in runs.items()}
    measures = {
        "seconds": [run.seconds for run in load.values()],
        "index, MB": [run.index_bytes / 2**20 for run in load.values()],
        "WAL, MB": [run.wal_bytes / 2**20 for run in load.values()],
    }
    figure, all_axes = plt.subplots(1, len(measures), figsize=(10, 3.2))
    for axes, (title, values) in zip(all_axes, measures.items(), strict=True):
        bars = axes.bar([plain(name).removesuffix("()") for name in load], values, color=[*map(colour, load)])
        axes.bar_label(bars, fmt="%.1f" if title == "seconds" else "%.0f")
        axes.set_title(title)
        axes.tick_params(axis="x", rotation=30)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{rows:,} rows inserted, by kind of key, {machine}")
    save(figure, path)
