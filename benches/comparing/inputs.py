"""The inputs W1 to W6, generated once from fixed seeds, with addresses in real images of this machine."""

import bisect
import glob
import itertools
import os
import random
import subprocess
import sys

from . import perfdata as pd
from .elf import Image, Kernel

# Programs and libraries of this machine used in the inputs.
GCC = "/usr/lib/gcc/x86_64-linux-gnu/*/cc1"
PROGRAMS = {
    "cc1": [GCC, "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libgmp.so.*"],
    "git": ["/usr/bin/git", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libz.so.*"],
    "python3": ["/usr/bin/python3", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6"],
    "ld": ["/usr/bin/x86_64-linux-gnu-ld.bfd", "/usr/lib/x86_64-linux-gnu/libbfd-*.so", "/lib/x86_64-linux-gnu/libc.so.6"],
    "clang": ["/usr/lib/x86_64-linux-gnu/libLLVM-*.so.1", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
              "/lib/x86_64-linux-gnu/libc.so.6"],
    "as": ["/usr/bin/x86_64-linux-gnu-as", "/usr/lib/x86_64-linux-gnu/libbfd-*.so", "/lib/x86_64-linux-gnu/libc.so.6"],
}
SAMPLES = 1_000_000
ROUND = 4000
LIBRARY_FOLDERS = ["/usr/lib/x86_64-linux-gnu/**/*.so*", "/usr/lib/gcc/**/*", "/usr/bin/*", "/usr/lib/**/*.so*"]


def images_of(patterns):
    found = []
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            try:
                found.append(Image(path))
                break
            except (OSError, ValueError):
                continue
    return found


def zipf(n, power):
    return list(itertools.accumulate(1 / (rank + 1) ** power for rank in range(n)))


class Hot:
    """The functions of an image, with different frequencies."""

    @staticmethod
    def of(image, random_):
        """Returns the shared instance of an image."""
        if not hasattr(image, "hot"):
            image.hot = Hot(image.functions, random_)
        return image.hot

    def __init__(self, functions, random_):
        self.functions = list(functions)
        random_.shuffle(self.functions)
        self.cumulative = zipf(len(functions), 0.8)

    def pick(self, random_):
        at = bisect.bisect(self.cumulative, random_.random() * self.cumulative[-1])
        return self.functions[min(at, len(self.functions) - 1)]


class Program:
    """Random tree of call paths through images, with hot and cold branches."""

    def __init__(self, name, images, kernel, random_, paths, depth, leaf_addresses, kernel_share):
        self.name, self.images, self.random = name, images, random_
        self.kernel, self.kernel_share = kernel, kernel_share
        self.hot = [Hot.of(image, random_) for image in images]
        self.hot_kernel = Hot.of(kernel, random_)
        self.paths = []
        for _ in range(paths):
            self.paths.append(self.path(depth))
        self.leaves = [self.leaf(path, leaf_addresses) for path in self.paths]
        self.cumulative = zipf(len(self.leaves), 0.75)

    def pick(self, which):
        """Returns a location in a function: (image, offset)."""
        offset, size = self.hot[which].pick(self.random)
        return which, offset + self.random.randrange(4, size)

    def some_image(self):
        # The program itself takes most of the time.
        return 0 if len(self.images) == 1 or self.random.random() < 0.7 else self.random.randrange(1, len(self.images))

    def path(self, depth):
        """Returns return addresses from the root on. Branches off an earlier path."""
        length = max(1, depth + self.random.randint(-depth // 4, depth // 4) if depth > 4 else self.random.randint(1, 2 * depth - 1))
        if not self.paths:
            return [self.pick(0) for _ in range(length)]
        begin = self.random.choice(self.paths)
        path = begin[:self.random.randint(len(begin) // 2, len(begin))][:length - 1]
        while len(path) < length:
            path = path + [self.pick(self.some_image())]
        return path

    def leaf(self, path, addresses):
        """Returns possible sample addresses at the end of a path: in one function, or in the kernel below it."""
        if self.random.random() < self.kernel_share:
            kernel = []
            for _ in range(self.random.randint(3, 7)):
                start, size = self.hot_kernel.pick(self.random)
                kernel.append(start + self.random.randrange(4, size))
            return [(address, kernel) for address in self.around(kernel[0], addresses)]
        which, offset = path[-1]
        return [((which, at), None) for at in self.around(offset, addresses)]

    def around(self, address, count):
        return [address + 4 * n for n in range(self.random.randint(1, 2 * count - 1))]


class Process:
    """A process: images at certain addresses."""

    def __init__(self, pid, program, random_):
        self.pid, self.program, self.stacks = pid, program, {}
        start = random_.randrange(0, 1 << 12)
        self.slots = [start + 16 * n for n in range(len(program.images))]

    def begin(self, time, parent=None):
        out = pd.fork(self.pid, parent, time) if parent else b""
        out += pd.comm(self.pid, self.program.name, time)
        for image, slot in zip(self.program.images, self.slots):
            out += pd.mapping(self.pid, image, slot, time)
        return out

    def address(self, place):
        which, offset = place
        return self.program.images[which].address(self.slots[which], offset)

    def stack(self, number, which):
        """Returns a sample of a path, at one of its leaf addresses."""
        leaves = self.program.leaves[number]
        which %= len(leaves)
        key = number << 8 | which
        found = self.stacks.get(key)
        if found is None:
            leaf, kernel = leaves[which]
            path = self.program.paths[number]
            user = [self.address(place) for place in reversed(path[:-1])]
            if kernel is None:
                chain = [pd.CONTEXT_USER, self.address(leaf), *user]
            else:
                chain = [pd.CONTEXT_KERNEL, leaf, *kernel[1:], pd.CONTEXT_USER, self.address(path[-1]), *user]
            found = self.stacks[key] = pd.Stack(self.pid, chain)
        return found

    def samples(self, count, random_):
        numbers = random_.choices(range(len(self.program.paths)), cum_weights=self.program.cumulative, k=count)
        return [self.stack(n, int(random_.random() * random_.random() * 128)) for n in numbers]


def programs(random_, **shape):
    kernel = Kernel()
    made = []
    for name, patterns in PROGRAMS.items():
        images = images_of(patterns)
        if images:
            made.append(Program(name, images, kernel, random_, **shape))
    return kernel, made


class Clock:
    """Generates sample times on two CPUs. Records of a round come CPU by CPU, as from two ring buffers."""

    def __init__(self, writer):
        self.time, self.out = 1_000_000_000, writer.out

    def round(self, stacks):
        step, time = pd.PERIOD, self.time
        half = len(stacks) // 2
        for cpu, part in enumerate((stacks[:half], stacks[half:])):
            at = time + cpu * 1000
            rows = []
            for stack in part:
                rows.append(stack.at(at, cpu))
                at += step
            self.out.write(b"".join(rows))
        self.time = time + (len(stacks) - half) * step
        self.out.write(pd.END_OF_ROUND)


def wide(path, samples, repeat=1, seed=7, processes=48, paths=1500, depth=3, leaf_addresses=8, kernel_share=0.12):
    """W1, W2, W5: some busy programs on two CPUs."""
    random_ = random.Random(seed)
    kernel, made = programs(random_, paths=paths, depth=depth, leaf_addresses=leaf_addresses, kernel_share=kernel_share)
    writer = pd.Writer(path, "perf record -F 999 -a -g")
    out = writer.out
    out.write(pd.kernel_mapping(kernel.text, kernel.end))
    running = [Process(1000 + n, made[n % len(made)], random_) for n in range(processes)]
    for process in running:
        out.write(process.begin(1000))
    out.write(pd.END_OF_ROUND)
    rounds = []
    for at in range(0, samples, ROUND):
        size = min(ROUND, samples - at)
        stacks = []
        while len(stacks) < size:
            # A time slice.
            turn = min(random_.randint(20, 400), size - len(stacks))
            stacks += random_.choice(running).samples(turn, random_)
        rounds.append(stacks)
    clock = Clock(writer)
    for _ in range(repeat):
        for stacks in rounds:
            clock.round(stacks)
    writer.finish()


def long_tail(path, samples, seed=11, processes=2000, images=500, stacks=100):
    """W4: many short processes, many images, rare stacks."""
    random_ = random.Random(seed)
    kernel = Kernel()
    libraries, seen = [], set()
    for name in itertools.chain.from_iterable(sorted(glob.glob(p, recursive=True)) for p in LIBRARY_FOLDERS):
        real = os.path.realpath(name)
        if real in seen or not os.path.isfile(real) or not 8192 < os.path.getsize(real) < 64 << 20:
            continue
        seen.add(real)
        try:
            libraries.append(Image(real))
        except (OSError, ValueError):
            continue
        if len(libraries) == images:
            break
    random_.shuffle(libraries)
    writer = pd.Writer(path, "perf record -F 999 -a -g")
    writer.out.write(pd.kernel_mapping(kernel.text, kernel.end))
    clock = Clock(writer)
    each = samples // processes
    writer.out.write(pd.comm(1, "init", 1000))
    for n in range(processes):
        mine = [libraries[n * 7 % len(libraries)], *random_.sample(libraries, 7)]
        program = Program(f"job{n % 250}", mine, kernel, random_, paths=stacks // 4, depth=8, leaf_addresses=4,
                          kernel_share=0.1)
        process = Process(2000 + n, program, random_)
        writer.out.write(process.begin(clock.time - 1, parent=1))
        pool = [process.stack(p, l) for p in range(stacks // 4) for l in range(8)]
        pool = list({id(s): s for s in pool}.values())[:stacks]
        clock.round(pool + random_.choices(pool, cum_weights=zipf(len(pool), 0.5), k=max(each - len(pool), 0)))
    writer.finish()


BIG_C = "static int f_(int s,int n){return s%(n+1);}\n"
BIG_C_EACH = ("int f%d(int x){int a[16];for(int i=0;i<16;i++)a[i]=x*i+%d;int s=0;"
              "for(int i=0;i<16;i++)s+=a[i]^(x>>(i&7));return s>%d?f_(s,%d):s+%d;}\n")


def compile_job(folder, functions):
    """Returns a command that compiles two files in parallel: about 16 s of CPU time for 800 functions."""
    source = os.path.join(folder, "big.c")
    with open(source, "w") as out:
        out.write(BIG_C + "".join(BIG_C_EACH % ((n,) * 5) for n in range(functions)))
    line = f"gcc -O2 -c {source} -o /dev/null"
    return ["sh", "-c", f"{line} & {line} & wait"]


def quietly(command, what):
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"compare: cannot make {what}: {' '.join(command[:4])}: {done.stderr.strip()[-300:]}")


def dumps(path, perf, folder, samples):
    """W3: perf's recording of a compile job with --call-graph dwarf."""
    event = ["-e", "cpu-clock:u", "-F", "4999", "-m", "32M", "--call-graph", "dwarf,8192"]
    job = compile_job(folder, max(samples // 100, 10))
    quietly([perf, "record", "-q", *event, "-o", path + ".part", *job], "W3")
    os.replace(path + ".part", path)


def own(path, rprof, folder):
    """W6: rprof's recording of a compile job."""
    quietly([rprof, "record", "-q", "-g", "-F", "4999", "-o", path + ".part", *compile_job(folder, 400)], "W6")
    os.replace(path + ".part", path)


def make(name, path, tools, folder, scale):
    """Creates an input. `scale` is 1 for the full size."""
    samples = max(int(SAMPLES * scale), 2 * ROUND)
    match name:
        case "W1":
            wide(path, samples)
        case "W2":
            wide(path, samples, seed=8, depth=40, paths=1000, leaf_addresses=4)
        case "W3":
            dumps(path, tools["perf"], folder, int(50_000 * scale))
        case "W4":
            long_tail(path, samples // 2, processes=int(2000 * min(scale, 1)) or 1)
        case "W5":
            wide(path, samples, repeat=10)
        case "W6":
            own(path, tools["rprof"], folder)
        case "big":
            script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "symbols", "big_target.py")
            target = os.path.join(folder, "big-target")
            quietly([sys.executable, script, target], "the big program")
            os.replace(os.path.join(target, "big"), path)
        case "ten":
            wide(path, 10, processes=2, paths=4)
