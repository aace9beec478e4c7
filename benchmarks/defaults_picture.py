"""Figure of errors with default settings: a row for each set, a mark for each regressor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

#: Marks that are distinguishable without colour; the first is for ovk.
MARKS = ("o", "*", "^", "s", "D", "v", "P", "X")
#: Colours for colour-blind readers.
COLOURS = ("#c0182b", "#000000", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31")


def draw(
    errors: Mapping[str, Mapping[str, float]],
    seen: set[str],
    path: Path,
    base: str,
    ticks: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0),
) -> None:
    """Draw errors[set][regressor] relative to the regressor `base`; sets are sorted by the first regressor.

    Parameters
    ----------
    errors : aRRMSE for each set, regressors in the order of the legend
    seen : sets used during development, marked with a star
    path : PNG file
    ticks : numbers on the axis
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(name for each in errors.values() for name in each))
    order = sorted(errors, key=lambda table: errors[table][names[0]] / errors[table][base], reverse=True)
    figure, axes = plt.subplots(figsize=(9, 0.34 * len(order) + 1.6), layout="constrained")
    for number, name in enumerate(names):
        rows = [row for row, table in enumerate(order) if name in errors[table]]
        ratios = [errors[order[row]][name] / errors[order[row]][base] for row in rows]
        axes.scatter(
            ratios, rows, s=90 if number == 0 else 45, marker=MARKS[number % len(MARKS)],
            color=COLOURS[number % len(COLOURS)], label=name,
            zorder=3 if number == 0 else 2,
        )  # fmt: skip
    axes.axvline(1.0, color="grey", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(order)), [f"{table} *" if table in seen else table for table in order])
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(f"error relative to {base} (* used during development)")
    axes.grid(axis="y", linewidth=0.3)
    figure.legend(fontsize=10, loc="outside upper center", ncols=min(len(names), 4), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
