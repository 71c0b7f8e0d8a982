"""Parses the output of each tool, to check that all did the same work.

Each function returns a total and the set of top functions, with several in a tie. Unnamed functions
are excluded, because perf has a row for each of their addresses.
"""

import json
import re


def folded(path):
    """Returns the sum of weights, and the functions with most samples."""
    total, leaves = 0, {}
    with open(path, errors="replace") as lines:
        for line in lines:
            stack, _, weight = line.rstrip("\n").rpartition(" ")
            weight = int(weight)
            leaf = stack.rsplit(";", 1)[-1]
            total += weight
            leaves[leaf] = leaves.get(leaf, 0) + weight
    leaves = {name: weight for name, weight in leaves.items() if not name.startswith("[")}
    most = max(leaves.values(), default=0)
    return total, {name for name, weight in leaves.items() if weight == most}


def svg(path):
    """Returns the total of the graph. Titles have units, and the attribute has the plain number."""
    with open(path, errors="replace") as text:
        found = re.search(r'total_samples="(\d+)"', text.read())
    return int(found[1]) if found else None, set()


def perf_report(path):
    """Sum of the periods, and the first rows."""
    total, most, top = None, None, set()
    with open(path, errors="replace") as lines:
        for line in lines:
            if found := re.match(r"# Event count \(approx\.\): (\d+)", line):
                total = int(found[1])
            found = re.match(r"\s+([\d.]+)%(?:\s+[\d.]+%)?\s+\S.*?\s+\[[.kgH]\]\s+(.*\S)", line)
            if not found or found[2].startswith("0x"):
                continue
            most = most or found[1]
            if found[1] == most:
                top.add(re.sub(r"\s+[-\d]+\s+[-\d]+$", "", found[2]))
    return total, top


def rprof_report(path, by="total"):
    """Sum of the periods, and the first rows."""
    with open(path) as text:
        event = next(e for e in json.load(text)["events"] if e["samples"])
    rows = [row for row in event["rows"] if row["symbol"] != "[unknown]"]
    # With two digits, as in perf.
    share = lambda row: f"{100 * row[by] / event['weight_total']:.2f}"
    most = max((row[by] for row in rows), default=0)
    return event["weight_total"], {r["symbol"] for r in rows if share(r) == f"{100 * most / event['weight_total']:.2f}"}


def rprof_flat(path):
    """Like `rprof_report`, by self time."""
    return rprof_report(path, "self")


def samply(path):
    """Returns the number of weighted samples. samply resolves function names only for display."""
    import gzip

    opened = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opened(path, "rt") as text:
        profile = json.load(text)
    total = 0
    for thread in profile["threads"]:
        samples = thread["samples"]
        weights = samples.get("weight")
        total += sum(weights) if weights else samples["length"]
    return total, set()
