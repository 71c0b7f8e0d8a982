"""Runs commands and measures their resource usage."""

import os
import shlex
import subprocess
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Taken:
    """Resource usage of a command in seconds and bytes."""

    wall: float
    cpu: float
    max_rss: int
    anonymous: int = 0
    output: str = ""


@dataclass
class Command:
    """A pipeline. `output` is its output file, or the destination of its standard output."""

    name: str
    stages: list
    output: str = os.devnull
    to_stdout: bool = True
    source: str = os.devnull
    runs: list = field(default_factory=list)

    def line(self):
        return " | ".join(shlex.join(stage) for stage in self.stages)


class Watch(threading.Thread):
    """Polls /proc/PID/status every 5 ms for the peak anonymous memory of any process of a pipeline."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.most, self.over = pids, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.005):
            for pid in self.pids:
                try:
                    with open(f"/proc/{pid}/status") as status:
                        for line in status:
                            if line.startswith("RssAnon"):
                                self.most = max(self.most, int(line.split()[1]) * 1024)
                except OSError:
                    continue


def run(command, watch=False, core=None, environment=None):
    """Runs a command once. Measures wall time of the whole pipeline, the sum of CPU times, and memory of
    the largest process. Without `watch`, no polling disturbs the run."""
    prefix = ["taskset", "-c", str(core)] if core is not None else []
    out = open(command.output if command.to_stdout else os.devnull, "wb")
    children, source = [], open(command.source, "rb")
    begin = time.monotonic()
    for number, stage in enumerate(command.stages):
        last = number == len(command.stages) - 1
        child = subprocess.Popen(prefix + stage, stdin=source, stdout=out if last else subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, env=environment)
        source.close()
        source = child.stdout
        children.append(child)
    watcher = Watch([c.pid for c in children]) if watch else None
    if watcher:
        watcher.start()
    cpu, rss, failed = 0.0, 0, None
    for child in children:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
        rss = max(rss, usage.ru_maxrss * 1024)
        if child.returncode:
            failed = failed or f"{shlex.join(child.args)[:200]}: exit status {child.returncode}"
    wall = time.monotonic() - begin
    out.close()
    if watcher:
        watcher.over.set()
        watcher.join()
    if failed:
        raise RuntimeError(failed)
    return Taken(wall, cpu, rss, watcher.most if watcher else 0)


def alternate(commands, runs, budget):
    """Runs commands alternately, `runs` times, or fewer if the `budget` in seconds is exceeded, but at
    least once. Commands much faster than the slowest run three times as often."""
    begin = time.monotonic()
    for number in range(runs):
        took = time.monotonic() - begin
        if number and took + took / number > budget:
            break
        slowest = max((c.runs[-1].wall for c in commands if c.runs), default=0)
        for command in commands:
            quick = not command.runs or command.runs[-1].wall < slowest / 5
            for _ in range(3 if quick and command is commands[0] else 1):
                command.runs.append(run(command))


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
