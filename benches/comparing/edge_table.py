"""Formats results of benches/edges."""

import json

RECORDERS = {"rprof": "rprof", "perf": "perf dwarf 64 KB"}


def total(rows, who, what):
    return sum(row[who][what] for row in rows if who in row)


def summary(rows):
    """Returns one line for each recorder."""
    lines = []
    for who in RECORDERS:
        there = [row for row in rows if who in row]
        if there:
            lines.append(f"{who}: {total(rows, who, 'checked'):,} pairs of {len(there)} programs checked, "
                         f"{total(rows, who, 'impossible'):,} impossible")
    return "\n".join(lines)


def cell(result):
    return f"{result['checked']:,} | {result['impossible']:,}" if result else " | "


def kind(result, *names):
    """Returns the percentage of checked pairs with these verdicts."""
    found = sum(result["pairs"].get(name, {"samples": 0})["samples"] for name in names)
    return f"{100 * found / max(result['checked'], 1):.1f}"


def markdown(paths):
    """Returns the rows of several files as one table."""
    rows = []
    for path in paths:
        with open(path) as text:
            rows += json.load(text)
    there = [who for who in RECORDERS if any(who in row for row in rows)]
    heads = " | ".join(f"{RECORDERS[who]}: pairs | impossible" for who in there)
    lines = [f"| program | Hz | {heads} | stacks | named target, % | through a pointer, % | with generated code |",
             "|---" * (6 + 2 * len(there)) + "|"]
    for row in rows:
        ours = row.get("rprof")
        if not ours:
            continue
        shares = [kind(ours, "direct", "by jumps", "through a linkage table", "through a resolver", "lazy binding"),
                  kind(ours, "through a pointer", "by a jump through a pointer")]
        other = ours["pairs"].get("not checked", {"samples": 0})["samples"]
        cells = " | ".join(cell(row.get(who)) for who in there)
        lines.append(f"| {row['program']} | {row['hertz']} | {cells} | {ours['stacks']:,} | {' | '.join(shares)} | {other:,} |")
    return "\n".join(lines + ["", summary(rows)])
