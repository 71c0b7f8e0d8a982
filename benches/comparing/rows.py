"""The comparisons: commands, inputs and goals."""

import os
from dataclasses import dataclass, field

from . import checks, elf
from .measure import Command

NO_INLINE = "--no-inline"


@dataclass
class Row:
    """A row of the table: rprof, and a peer with the same task."""

    title: str
    goal: float
    ours: Command
    peer: Command
    # Results as (total, top functions), which must agree if both are known.
    found_ours: object = None
    found_peer: object = None
    about: str = "faster"
    # True for a goal that is a maximum of ours / peer, instead of a minimum of peer / ours.
    at_most: bool = False
    note: str = ""
    result: dict = field(default_factory=dict)


def symbols(tools, program, folder):
    """Symbolizes 10,000 addresses of a program with much debug information, with inlined calls and lines."""
    offsets, addresses = elf.random_text(program, 10_000, folder)
    ours = Command("symbolize", [[tools["symbolize"], program]], source=offsets)
    peer = Command("llvm-symbolizer --inlines", [[tools["llvm-symbolizer"], "--inlines", f"--obj={program}"]], source=addresses)
    return Row("10,000 addresses of 349 MB of DWARF", 5, ours, peer)


def rows(tools, inputs, folder):
    """Returns all rows for the available peers and inputs."""
    rprof, perf, samply = tools["rprof"], tools.get("perf"), tools.get("samply")
    collapse, draw = tools.get("inferno-collapse-perf"), tools.get("inferno-flamegraph")
    out = lambda name: os.path.join(folder, name)
    made = []

    def ours(name, words, output, to_stdout=True):
        return Command(name, [[rprof, *words]], output, to_stdout)

    def folded(work, input_, weight="period"):
        words = ["collapse", NO_INLINE, "-q", "--weight", weight, "-i", input_, "-o", "-"]
        return ours(f"rprof collapse {work}", words, out("ours.folded"))

    def perf_folded(work, input_):
        stages = [[perf, "script", NO_INLINE, "-i", input_], [collapse]]
        return Command(f"perf script {work} | inferno-collapse-perf", stages, out("peer.folded"))

    w1 = inputs.get("W1")
    if w1 and perf and collapse and draw:
        graph = [[perf, "script", NO_INLINE, "-i", w1], [collapse], [draw]]
        made.append(Row(
            "W1 → flamegraph.svg", 25,
            ours("rprof flamegraph", ["flamegraph", NO_INLINE, "-q", "-i", w1, "-o", "-"], out("ours.svg")),
            Command("perf script | inferno-collapse-perf | inferno-flamegraph", graph, out("peer.svg")),
            checks.svg, checks.svg))
    flat = ["--no-children"], ["--no-children", "-g", "none"], checks.rprof_flat
    for work, title, goal, (mine, words, found) in [
        ("W1", "top functions", 15, ([], [], checks.rprof_report)),
        ("W1", "top functions, flat", 6, flat),
        ("W2", "top functions, flat", 6, flat),
    ]:
        if (input_ := inputs.get(work)) and perf:
            made.append(Row(
                f"{work} → {title}", goal,
                ours(f"rprof report {' '.join(mine)}".strip(), ["report", NO_INLINE, "--format", "json", "-q", "-i", input_, *mine], out("ours.json")),
                Command(f"perf report --stdio {' '.join(words)}".strip(), [[perf, "report", "--stdio", NO_INLINE, *words, "-i", input_]], out("peer.report")),
                found, checks.perf_report))
    if w1 and samply:
        to = out("peer.samply.json")
        made.append(Row(
            "W1, whole read and convert", 10, folded("W1", w1, "samples"),
            Command("samply import --save-only", [[samply, "import", "--save-only", "-o", to, w1]], to, False),
            checks.folded, checks.samply))
    if (big := inputs.get("big")) and tools.get("llvm-symbolizer") and tools.get("symbolize"):
        made.append(symbols(tools, big, folder))
    for work, goal in [("W2", 25), ("W4", 25), ("W3", 8), ("W6", None)]:
        if (input_ := inputs.get(work)) and perf and collapse:
            made.append(Row(f"{work} → folded", goal, folded(work, input_), perf_folded(work, input_),
                            checks.folded, checks.folded,
                            note="two unwinders: tops may differ" if work == "W3" else ""))
    if (w3 := inputs.get("W3")) and samply:
        to = out("peer.samply.json")
        made.append(Row("W3, whole read and convert", 3, folded("W3", w3, "samples"),
                        Command("samply import --save-only", [[samply, "import", "--save-only", "-o", to, w3]], to, False),
                        checks.folded, checks.samply))
    if (w5 := inputs.get("W5")) and w1:
        made.append(Row("W5 beside W1 (ten times the samples)", 10.5, folded("W5", w5), folded("W1", w1), at_most=True,
                        about="as long"))
    if w1:
        beside = lambda tool: Command(tool, [[tool, w1]])
        if tools.get("count"):
            reader = lambda: Command("rprof-perfdata's reader", [[tools["count"], w1]])
            made.append(Row("W1, every record read, beside cksum", 1.5, reader(), beside("cksum"), at_most=True, about="as long"))
            made.append(Row("W1, every record read, beside cat", None, reader(), beside("cat"), at_most=True, about="as long"))
        made.append(Row("W1 → folded beside cksum", None, folded("W1", w1), beside("cksum"), at_most=True, about="as long"))
    if (ten := inputs.get("ten")) and perf:
        made.append(Row("10 samples → top functions", 5,
                        ours("rprof report", ["report", NO_INLINE, "--format", "json", "-q", "-i", ten], out("ours.json")),
                        Command("perf report --stdio", [[perf, "report", "--stdio", NO_INLINE, "-i", ten]], out("peer.report")),
                        checks.rprof_report, checks.perf_report))
        made.append(Row("start-up: --version", None, ours("rprof --version", ["--version"], os.devnull),
                        Command("perf --version", [[perf, "--version"]])))
    return made


def on_cores(tools, inputs, folder):
    """Returns commands to run on one core and on two: (title, goal, command)."""
    rprof = tools["rprof"]
    words = ["collapse", NO_INLINE, "-q", "--weight", "samples", "-o", os.path.join(folder, "ours.folded"), "-i"]
    return [(f"{work} → folded, 2 cores against 1", 1.7, Command(f"rprof collapse {work}", [[rprof, *words, inputs[work]]], to_stdout=False))
            for work in ("W1", "W3") if work in inputs]
