"""What a tool found, from what it wrote: did all do the same work?"""

import json
import re


def folded(path):
    """Sum of the weights, and the function in which most samples were taken."""
    total, leaves = 0, {}
    with open(path, errors="replace") as lines:
        for line in lines:
            stack, _, weight = line.rstrip("\n").rpartition(" ")
            weight = int(weight)
            leaf = stack.rsplit(";", 1)[-1]
            total += weight
            leaves[leaf] = leaves.get(leaf, 0) + weight
    return total, max(leaves, key=leaves.get)


def svg(path):
    """The number that the whole graph stands for, and its root."""
    with open(path, errors="replace") as text:
        found = re.search(r"<title>all \(([\d,]+) [\w.-]*", text.read())
    return (int(found[1].replace(",", "")), "all") if found else (None, None)


def perf_report(path):
    """Sum of the periods, and the first row's function."""
    total, top = None, None
    with open(path, errors="replace") as lines:
        for line in lines:
            if found := re.match(r"# Event count \(approx\.\): (\d+)", line):
                total = int(found[1])
            found = re.match(r"\s+[\d.]+%(?:\s+[\d.]+%)?\s+\S.*?\s+\[[.kgH]\]\s+(.*\S)", line)
            if found and top is None:
                top = re.sub(r"\s+[-\d]+\s+[-\d]+$", "", found[1])
    return total, top


def rprof_report(path):
    """Sum of the periods, and the first row's function."""
    with open(path) as text:
        event = next(e for e in json.load(text)["events"] if e["samples"])
    return event["weight_total"], event["rows"][0]["symbol"]


def samply(path):
    """Number of samples, which have weights; samply names functions when it shows them."""
    import gzip

    opened = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opened(path, "rt") as text:
        profile = json.load(text)
    total = 0
    for thread in profile["threads"]:
        samples = thread["samples"]
        weights = samples.get("weight")
        total += sum(weights) if weights else samples["length"]
    return total, None
