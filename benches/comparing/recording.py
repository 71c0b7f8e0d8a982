"""Compares recording with perf and samply: an empty command, two busy threads, two busy programs with deep stacks."""

import os
import re
import resource
import subprocess
import sys

from .measure import Command, alternate, median

BUSY = """
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static int frames;
static double end;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static __attribute__((noinline)) void deep(int below) {
  volatile unsigned long work[4] = {0};
  if (below > 0) deep(below - 1);
  else while (now() < end) for (int i = 0; i < 100000; i++) work[i % 4] += i;
}
static void *run(void *unused) { (void)unused; deep(frames); return 0; }
int main(int argc, char **argv) {
  pthread_t second;
  frames = atoi(argv[1]), end = now() + atof(argv[2]);
  if (argc > 3) pthread_create(&second, 0, run, 0);
  run(0);
  if (argc > 3) pthread_join(second, 0);
  return 0;
}
"""
HERTZ = "9999"
SECONDS = 5


# The load in both: its name in the table, and the command for the built program.
BUSY_ONES = {
    "two threads of 9 frames": lambda program, seconds: [program, "4", str(seconds), "two"],
    "two programs of 45 frames": lambda program, seconds: ["sh", "-c", f"{program} 45 {seconds} & {program} 45 {seconds}; wait"],
}


def busy(folder):
    """Builds a program that works at a given stack depth, without frame pointers. Returns None without a compiler."""
    source, program = os.path.join(folder, "busy.c"), os.path.join(folder, "busy")
    with open(source, "w") as out:
        out.write(BUSY)
    built = subprocess.run(["cc", "-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-o", program, source],
                           stderr=subprocess.DEVNULL)
    return program if built.returncode == 0 else None


def row(title, peer, goal, ours, theirs, at_most, about, unit, note="", command=""):
    of = (lambda a, b: a / b) if at_most else (lambda a, b: b / a)
    spread = [of(a, b) for a in ours for b in theirs]
    mine, other = median(ours), median(theirs)
    return {"title": title, "peer": peer, "goal": goal, "at_most": at_most, "about": about, "unit": unit,
            "ours_s": mine, "peer_s": other, "ratio": of(mine, other), "low": min(spread), "high": max(spread),
            "ours_memory": 0, "peer_memory": 0, "same": note, "commands": [command]}


NOTHING = "`record -- true`"


def titles(load):
    """Returns the titles of the rows of a load: CPU time, size, compressed size."""
    return f"record at 9,999 Hz `-g`, {load}: CPU", f"record, {load}: size of the file", f"record, {load}: size of the file, `-z`"


def nothing(tools, folder, runs):
    """`record -- true`."""
    commands = [Command(f"{name} record -- true",
                        [[tools[name], "record", "-q", *flat, "-o", os.path.join(folder, "true.data"), "--", "true"]])
                # perf records no stacks by default.
                for name, flat in (("rprof", ["--call-graph", "none"]), ("perf", []))]
    alternate(commands, runs, 60)
    walls = [[taken.wall for taken in command.runs] for command in commands]
    return row(NOTHING, commands[1].name, None, *walls, False, "faster", "seconds")


def recorded(line, data, command, folder):
    """Returns CPU seconds of the recorder without the command, the file size, and its messages."""
    for name in (data, data + ".old"):
        if os.path.exists(name):
            os.remove(name)
    times = os.path.join(folder, "times")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*line, "-o", data, "--", "bash", "-c", f'"$@"; times >{times}', "bash", *command],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not os.path.exists(data):
        raise RuntimeError(f"{line[0]} left no file: {done.stderr.strip()[-200:]}")
    with open(times) as text:
        own = sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", text.read()))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - own
    return max(cpu, 0.001), os.path.getsize(data), done.stderr


def often(tools, folder, runs, load, command):
    """CPU time and size at 9,999 Hz, compared with perf's stack dumps and samply."""
    lines = {
        "rprof record -g": [tools["rprof"], "record", "-g", "-F", HERTZ],
        "rprof record -g -z": [tools["rprof"], "record", "-g", "-z", "-F", HERTZ],
        "perf record --call-graph dwarf": [tools["perf"], "record", "-q", "-N", "-e", "cpu-clock", "--call-graph", "dwarf,8192", "-F", HERTZ],
    }
    if tools.get("samply"):
        lines["samply record"] = [tools["samply"], "record", "--save-only", "-r", HERTZ]
    taken, lost = {name: [] for name in lines}, 0
    for _ in range(runs):
        for name in list(lines):
            try:
                cpu, size, said = recorded(lines[name], os.path.join(folder, "deep.data"), command, folder)
            except RuntimeError as error:
                # samply needs kernel.perf_event_paranoid at 1.
                print(f"compare: {error}", file=sys.stderr)
                lines.pop(name)
                taken.pop(name)
                continue
            taken[name].append((cpu, size))
            if found := re.search(r"lost ([\d,]+) samples", said):
                lost += int(found[1].replace(",", ""))
    made = []
    mine = taken["rprof record -g"]
    cpu_title, *size_titles = titles(load)
    for peer in ("perf record --call-graph dwarf", "samply record"):
        if taken.get(peer):
            made.append(row(cpu_title, peer, 1, [c for c, _ in mine], [c for c, _ in taken[peer]],
                            False, "less", "seconds", f"lost {lost:,}", f"{lines['rprof record -g']}"))
    for title, ours in zip(size_titles, ("rprof record -g", "rprof record -g -z")):
        made.append(row(title, "perf record --call-graph dwarf", 0.02,
                        [s for _, s in taken[ours]], [s for _, s in taken["perf record --call-graph dwarf"]],
                        True, "as large", "bytes"))
    return made


def rows(tools, folder, runs, wanted):
    """Returns the rows whose titles are wanted, if perf is installed."""
    if not tools.get("perf"):
        return []
    made = [nothing(tools, folder, 2 * runs)] if wanted(NOTHING) else []
    program = busy(folder)
    for load, command in BUSY_ONES.items() if program else ():
        # One series of recordings for all of its rows.
        if any(wanted(title) for title in titles(load)):
            made += often(tools, folder, max(runs // 2, 2), load, command(program, SECONDS))
    return [row for row in made if wanted(row["title"])]
