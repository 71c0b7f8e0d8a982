#!/usr/bin/env python3
"""Compares cold symbolization with inlined calls and lines with other tools. Installs nothing.

    cargo build --release -p rprof-symbols --example symbolize
    benches/symbols/big_target.py /tmp/big
    benches/symbols/compare.py /tmp/big/big

Every run is a new process that symbolizes the same random addresses of the program's code. Runs of all tools
alternate, so that other load affects all equally. Prints medians: wall time, CPU time (which varies less
under load), and peak resident memory, which includes touched pages of mapped files. For the addr2line
crate's program, build it (`cargo install addr2line --features bin`) and pass --tool addr2line.rs=PATH.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time


def code_of(program):
    """Returns SVMA, file offset and length of .text."""
    listing = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\] \.text\s+PROGBITS\s+([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", listing)
    return [int(number, 16) for number in found.groups()]


def measured(command, stdin, output):
    """Returns wall seconds, CPU seconds, peak MiB."""
    with open(stdin) as source, open(output, "w") as out:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=source, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - start
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {child.returncode}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rprof", default="target/release/examples/symbolize", help="the example `symbolize`")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--skip", action="append", default=[], help="a tool to leave out")
    parser.add_argument("--tool", action="append", default=[], help="NAME=PATH of another addr2line")
    options = parser.parse_args()

    address, offset, length = code_of(options.program)
    random.seed(7)
    inside = [random.randrange(length) for _ in range(options.count)]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rprof-symbols-"))
    (folder / "addresses").write_text("".join(f"{address + at:#x}\n" for at in inside))
    (folder / "offsets").write_text("".join(f"{offset + at:#x}\n" for at in inside))

    program = str(options.program)
    addr2line = ["-f", "-i", "-C", "-e", program]
    tools = {
        "rprof": [options.rprof, program],
        "llvm-symbolizer": ["llvm-symbolizer", "--inlines", "--demangle", f"--obj={program}"],
        "eu-addr2line": ["eu-addr2line", *addr2line],
        "addr2line": ["addr2line", *addr2line],
    }
    tools |= {name: [path, *addr2line] for name, path in (tool.split("=", 1) for tool in options.tool)}
    tools = {name: command for name, command in tools.items() if name not in options.skip}
    tools = {name: command for name, command in tools.items() if shutil.which(command[0])}

    runs = {name: [] for name in tools}
    for _ in range(options.runs):
        for name, command in tools.items():
            source = folder / ("offsets" if name == "rprof" else "addresses")
            runs[name].append(measured(command, source, folder / f"{name}.out"))

    ours = [statistics.median(column) for column in zip(*runs["rprof"])]
    print(f"{options.program}: {options.count} addresses, medians of {options.runs} runs, ratios to rprof")
    print(f"{'':16} {'wall s':>8} {'':>7} {'CPU s':>8} {'':>7} {'peak MiB':>9} {'':>7} {'lines out':>10}")
    for name in tools:
        medians = [statistics.median(column) for column in zip(*runs[name])]
        ratios = [theirs / mine for theirs, mine in zip(medians, ours)]
        lines = len((folder / f"{name}.out").read_bytes().splitlines())
        cells = " ".join(f"{m:>{w}.2f} {r:>6.2f}x" for m, r, w in zip(medians, ratios, (8, 8, 9)))
        print(f"{name:16} {cells} {lines:>10}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
