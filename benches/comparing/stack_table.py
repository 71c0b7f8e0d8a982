"""Formats results of benches/stacks as a table."""

import json

# Recorders in the table, with their titles.
RECORDERS = {"rprof": "rprof `-g`", "fp": "perf fp", "dwarf8": "perf dwarf 8 KB", "dwarf64": "perf dwarf 64 KB", "samply": "samply"}


def merged(paths):
    """Returns rows by program. If several files have a recorder, the last one applies."""
    rows = {}
    for path in paths:
        with open(path) as text:
            for row in json.load(text):
                rows.setdefault(row["program"], {}).update(row)
    return list(rows.values())


def share(result):
    """Formats the percentage of complete stacks, and in brackets of those one or two frames short."""
    if not result:
        return ""
    complete, near = (100 * result[what] / max(result["stacks"], 1) for what in ("complete", "near"))
    return f"{complete:.2f}" + (f" (+{near:.1f})" if near >= 0.1 else "")


def cost(result):
    """Formats bytes per sample, and CPU seconds of the recorder."""
    return f"{result['bytes'] / max(result['stacks'], 1):,.0f} B, {result['cpu']:.2f} s" if result else ""


def markdown(paths):
    rows = merged(paths)
    there = {name: title for name, title in RECORDERS.items() if any(name in row for row in rows)}
    lines = ["| program | " + " | ".join(there.values()) + " | rprof, by its own evidence | frames named or located |",
             "|---" * (len(there) + 3) + "|"]
    for row in rows:
        own, named = (f"{row[what]:.2f}" if what in row else "" for what in ("own", "named"))
        lines.append(f"| {row['program']} | " + " | ".join(share(row.get(name)) for name in there) + f" | {own} | {named} |")
    paid = {"rprof": there.get("rprof"), "rprof-z": "rprof `-g -z`", **{n: t for n, t in there.items() if n != "rprof"}}
    paid = {name: title for name, title in paid.items() if any(name in row for row in rows)}
    lines += ["", "| program | " + " | ".join(paid.values()) + " |", "|---" * (len(paid) + 1) + "|"]
    lines += [f"| {row['program']} | " + " | ".join(cost(row.get(name)) for name in paid) + " |" for row in rows]
    return "\n".join(lines)
