"""Formats results as a table and as JSON, and updates the README."""

import os
import platform
import time

BEGIN, END = "<!-- benches/compare: begin -->", "<!-- benches/compare: end -->"


def seconds(value):
    if value is None:
        return ""
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def amount(row, value):
    """Formats a row's figure with its unit."""
    return size(value) if row.get("unit") == "bytes" else seconds(value)


def size(value):
    digits = 0 if value >= 1e7 else 1
    return f"{value / 1e6:.{digits}f} MB" if value else ""


def ratio(value):
    if value < 0.1:
        return f"{value:.4f}"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def verdict(row):
    if row["goal"] is None:
        return ""
    met = row["ratio"] <= row["goal"] if row["at_most"] else row["ratio"] >= row["goal"]
    return "yes" if met else "**no**"


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, {memory:.0f} GiB, Linux {platform.release()}"


def markdown(result):
    time_ = {"wall": "wall time", "cpu": "CPU time"}[result["by"]]
    lines = [
        f"{result['machine']}; {result['date']}. {result['versions']}. Medians of {time_} over alternating runs; in brackets the",
        "smallest and the largest ratio of two runs. Memory is the most anonymous memory of any process, without mapped files.",
        "",
        "| work | beside | rprof | peer | times | goal | met | memory | peer's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        times = f"{ratio(row['ratio'])} [{ratio(row['low'])}–{ratio(row['high'])}] {row['about']}"
        goal = "" if row["goal"] is None else f"{'≤' if row['at_most'] else '≥'} {row['goal']}"
        note = f" ({row['same']})" if row["same"] not in ("", "same") else ""
        lines.append(
            f"| {row['title']}{note} | `{row['peer']}` | {amount(row, row['ours_s'])} | {amount(row, row['peer_s'])} | {times} "
            f"| {goal} | {verdict(row)} | {size(row['ours_memory'])} | {size(row['peer_memory'])} |".replace(" | inferno", " \\| inferno"))
    lines += ["", result["binary"]]
    return "\n".join(lines)


def into_readme(path, text):
    with open(path) as file:
        readme = file.read()
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"compare: {path} has no lines {BEGIN} and {END}")
    with open(path, "w") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


def today():
    return time.strftime("%Y-%m-%d")
