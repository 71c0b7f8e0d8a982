"""Compares an older and a newer build of rprof: no row may be significantly slower or larger."""

import os
import random
import statistics
from dataclasses import dataclass

from . import recording, table
from .measure import Command, run

# Minimum number of pairs: all of seven are worse by chance in one of 128 rows.
ENOUGH = 7
RESAMPLES = 2000
# Reading commands, and the inputs that each skips as too slow or too simple.
READERS = {
    "collapse": (["collapse", "-q", "-o", "-"], ()),
    "report": (["report", "-q", "--format", "json"], ()),
    "flamegraph": (["flamegraph", "-q", "-o", "-"], ("W5",)),
    "script": (["script", "-q"], ("W2", "W5")),
    "header": (["header"], ("W5",)),
}
FLAT = ["--call-graph", "none"]

RECORDERS = {
    "999 Hz `-g`": ["-g", "-F", "999"],
    "9,999 Hz `-g`": ["-g", "-F", "9999"],
    "9,999 Hz `-g -z`": ["-g", "-z", "-F", "9999"],
    # Older builds have this option too, and record no stacks without it.
    "9,999 Hz": [*FLAT, "-F", "9999"],
}


@dataclass
class Finding:
    """One figure of one row, from paired runs of both builds."""

    title: str
    figure: str
    unit: str
    old: list
    new: list
    note: str = ""

    def ratio(self):
        """Returns the median of new / old over the pairs, and its 95 % bootstrap interval."""
        ratios = [n / o for o, n in zip(self.old, self.new) if o > 0]
        if not ratios:
            return 1.0, 1.0, 1.0
        resample = random.Random(1)
        medians = sorted(statistics.median(resample.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
        return statistics.median(ratios), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]

    def verdict(self, tolerance):
        middle, low, high = self.ratio()
        if self.note.startswith("failed"):
            return "worse"
        if len(self.old) < ENOUGH:
            return "too few runs"
        if middle > 1 + tolerance:
            # The whole interval is on one side: significant.
            return "worse" if low > 1 else "in the noise"
        return "better" if middle < 1 - tolerance and high < 1 else "same"


def in_pairs(count, budget, measure):
    """Calls `measure` for both builds, `count` times, in alternating order."""
    begin, taken = os.times().elapsed, ([], [])
    for number in range(count):
        took = os.times().elapsed - begin
        if number >= ENOUGH and took + took / number > budget:
            break
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            taken[which].append(measure(which))
    return taken


def measured(title, figures, measure, count, args, budget):
    """Returns findings for `measure`, which returns a tuple of `figures`. If one is worse, adds as many pairs of
    runs again: of a hundred rows, some are worse by chance."""
    old, new = in_pairs(count, budget, measure)
    made = lambda: [Finding(title, figure, unit, [t[at] for t in old], [t[at] for t in new])
                    for at, (figure, unit) in enumerate(figures)]
    if any(row.verdict(args.tolerance / 100) == "worse" for row in made()):
        more = in_pairs(count, budget, measure)
        old, new = old + more[0], new + more[1]
    return made()


def reading(title, commands, args):
    """Measures time, then memory, of a command in both builds."""
    try:
        warm = [run(command) for command in commands]
        count = args.runs if max(w.wall for w in warm) > 0.2 else 3 * args.runs
        figure = {"wall": "wall time", "cpu": "CPU time"}[args.by]
        timed = lambda which: (getattr(run(commands[which]), args.by),)
        yield from measured(title, [(figure, "s")], timed, count, args, args.budget)
        # Memory is polled every few milliseconds, which is too coarse for short commands.
        if max(w.wall for w in warm) > 0.05:
            watched = lambda which: (run(commands[which], watch=True).anonymous,)
            yield from measured(title, [("memory", "bytes")], watched, args.runs, args, args.budget)
    except (RuntimeError, OSError) as error:
        yield Finding(title, "time", "s", [], [], f"failed: {error}")


def recordings(builds, args):
    """Measures `record` at several rates: CPU time, file size, memory."""
    folder, program = args.cache, recording.busy(args.cache)
    commands = [Command(f"{build} record", [[build, "record", "-q", *FLAT, "-o", os.path.join(folder, "true.data"), "--", "true"]])
                for build in builds]
    yield from reading("`record -- true`", commands, args)
    seconds = args.seconds
    for what, command in recording.BUSY_ONES.items() if program else ():
        for rate, options in RECORDERS.items():
            title, line = f"{rate}, {what}", command(program, seconds)
            data = os.path.join(folder, "against.data")
            budget = args.budget + 4 * args.runs * seconds
            try:
                figures = [("CPU time", "s"), ("size of the file", "bytes")]
                record = lambda which: recording.recorded([builds[which], "record", *options], data, line, folder)[:2]
                yield from measured(title, figures, record, args.runs, args, budget)
                watched = [Command(title, [[build, "record", "-q", *options, "-o", data, "--", *line]]) for build in builds]
                record = lambda which: (run(watched[which], watch=True).anonymous,)
                yield from measured(title, [("memory", "bytes")], record, args.runs, args, budget)
            except (RuntimeError, OSError) as error:
                yield Finding(title, "CPU time", "s", [], [], f"failed: {error}")


def findings(builds, inputs, args, say):
    """Yields all findings as they are measured."""
    wanted = lambda title: not args.row or args.row in title
    outputs = [os.path.join(args.cache, name) for name in ("against.old", "against.new")]
    for work, path in inputs.items():
        for name, (words, without) in READERS.items():
            title = f"{work} → {name}"
            if work in without or work == "big" or not wanted(title):
                continue
            say(title)
            commands = [Command(title, [[build, *words, "-i", path]], output) for build, output in zip(builds, outputs)]
            yield from reading(title, commands, args)
    for output in outputs:
        if os.path.exists(output):
            os.remove(output)
    if wanted("start-up"):
        yield from reading("start-up: --version", [Command("--version", [[build, "--version"]]) for build in builds], args)
    # The same with each build's own symbolizer.
    examples = [os.path.join(os.path.dirname(build), "examples", "symbolize") for build in builds]
    if "big" in inputs and all(os.access(example, os.X_OK) for example in examples) and wanted("big"):
        from . import elf
        offsets, _ = elf.random_text(inputs["big"], 10_000, args.cache)
        yield from reading("10,000 addresses of 349 MB of DWARF", [Command("symbolize", [[e, inputs["big"]]], source=offsets) for e in examples], args)
    if not args.no_record and wanted("record"):
        say("recording")
        yield from recordings(builds, args)


def shown(unit, values):
    if not values:
        return ""
    middle = statistics.median(values)
    return table.seconds(middle) if unit == "s" else table.size(middle)


def markdown(rows, args, builds):
    lines = [
        f"{table.machine()}; {table.today()}. `{builds[1]}` beside `{builds[0]}`, runs in alternating order; the ratio is the median of",
        f"new / old over pairs of runs, in brackets its interval of 95 % by bootstrap. Worse: more than {args.tolerance:g} %, and all of the interval above 1.",
        "",
        "| work | figure | old | new | new / old | pairs | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        middle, low, high = row.ratio()
        verdict = row.verdict(args.tolerance / 100)
        verdict = f"**{verdict}**" if verdict == "worse" else verdict
        lines.append(f"| {row.title} | {row.figure} | {shown(row.unit, row.old)} | {shown(row.unit, row.new)} "
                     f"| {middle:.3f} [{low:.3f}–{high:.3f}] | {len(row.old)} | {verdict}{' ' + row.note if row.note else ''} |")
    return "\n".join(lines)


def main(old, args, inputs, say):
    """Compares and prints. Returns the exit status: 1 if any row is worse."""
    builds = [os.path.abspath(old), os.path.abspath(args.rprof)]
    rows = []
    for row in findings(builds, inputs, args, say):
        rows.append(row)
        say(f"{row.title}, {row.figure}: {row.ratio()[0]:.3f}, {row.verdict(args.tolerance / 100)}")
    if args.json:
        import json
        print(json.dumps([{"title": r.title, "figure": r.figure, "unit": r.unit, "old": r.old, "new": r.new, "ratio": r.ratio(),
                           "verdict": r.verdict(args.tolerance / 100), "note": r.note} for r in rows], indent=1))
    else:
        print(markdown(rows, args, builds))
    return 1 if any(row.verdict(args.tolerance / 100) == "worse" for row in rows) else 0
