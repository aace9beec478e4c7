"""Results as plain text."""

from __future__ import annotations

from typing import Any


def case_table(case: dict[str, Any]) -> str:
    """A case as a table, its scores and its targets."""
    given = ", ".join(f"{key}={_short(value)}" for key, value in case["settings"].items())
    how = f"threads={case['threads']}; best of {case['rounds']} by {case['clock']} time"
    lines = ["", f"-- {case['name']} ({given}, {how})"]
    width = max(len(row["name"]) for row in case["contenders"])
    lines.append(f"   {'':{width}}  {'seconds':>9}  {'cpu s':>9}  {'ours/this':>9}  {'peak MiB':>9}")
    for row in case["contenders"]:
        memory = "" if row["peak_mib"] is None else f"{row['peak_mib']:.0f}"
        lines.append(
            f"   {row['name']:{width}}  {row['seconds']:9.4f}  {row['cpu_seconds']:9.4f}  "
            f"{row['ours_over_this']:9.2f}  {memory:>9}"
        )
    lines += [f"   {key}: {_short(value)}" for key, value in case["scores"].items()]
    for check in case["checks"]:
        sense, verdict = ">=" if check["at_least"] else "<=", "met" if check["met"] else "MISSED"
        lines.append(f"   target {check['target']}: {check['value']:.3g} {sense} {check['bound']:.3g}? {verdict}")
    return "\n".join(lines)


def summary(results: list[dict[str, Any]]) -> str:
    """Number of targets met, and names of those missed."""
    checks = [(b["name"], c["name"], k) for b in results for c in b["cases"] for k in c["checks"]]
    missed = [f"{b} / {c}: {k['target']}" for b, c, k in checks if not k["met"]]
    skipped = [b["name"] for b in results if b["skipped"] is not None]
    lines = [f"\n{len(checks) - len(missed)} of {len(checks)} targets met"]
    lines += [f"   missed: {name}" for name in missed]
    lines += [f"   skipped: {name}" for name in skipped]
    return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(inner)}" for key, inner in value.items())
    return str(value)
