"""Writes perf.data files like `perf record -a -g`. Independent of rprof's code, so that rprof is not
tested against itself. Format: perf.data-file-format.txt, perf_event.h."""

import os
import struct

MMAP, COMM, FORK, SAMPLE, MMAP2 = 1, 3, 7, 9, 10
FINISHED_ROUND = 68
KERNEL, USER, COMM_EXEC = 1, 2, 1 << 13
CONTEXT_KERNEL, CONTEXT_USER = 2**64 - 128, 2**64 - 512
# IP, TID, TIME, CALLCHAIN, CPU, PERIOD
SAMPLE_TYPE = 0x1 | 0x2 | 0x4 | 0x20 | 0x80 | 0x100
# disabled inherit mmap comm freq task sample_id_all exclude_guest mmap2 comm_exec
FLAGS = sum(1 << bit for bit in (0, 1, 8, 9, 10, 13, 18, 20, 23, 24))
HERTZ = 999
PERIOD = 1_000_000_000 // HERTZ
HOSTNAME, OSRELEASE, ARCH, NRCPUS, CMDLINE = 3, 4, 6, 7, 11
END_OF_ROUND = struct.pack("<IHH", FINISHED_ROUND, 0, 8)


def padded(name):
    name = name.encode() + b"\0"
    return name + bytes(-len(name) % 8)


def trailer(pid, time, cpu=0):
    return struct.pack("<iiQII", pid, pid, time, cpu, 0)


def record(kind, misc, body):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def kernel_mapping(start, end):
    body = struct.pack("<iIQQQ", -1, 0, start, end - start, start) + padded("[kernel.kallsyms]_text")
    return record(MMAP, KERNEL, body + trailer(0, 0))


def mapping(pid, image, slot, time):
    start = image.base(slot)
    body = struct.pack("<iiQQQIIQQII", pid, pid, start, image.length, image.text[0] & ~0xFFF,
                       image.device[0], image.device[1], image.inode, 0, 5, 2)
    return record(MMAP2, USER, body + padded(image.path) + trailer(pid, time))


def comm(pid, name, time):
    return record(COMM, COMM_EXEC, struct.pack("<ii", pid, pid) + padded(name) + trailer(pid, time))


def fork(pid, parent, time):
    return record(FORK, 0, struct.pack("<iiiiQ", pid, parent, pid, parent, time) + trailer(pid, time))


class Stack:
    """Bytes of a sample before and after its time, which are constant."""

    __slots__ = ("head", "tail")

    def __init__(self, pid, chain):
        kernel = chain[0] == CONTEXT_KERNEL
        self.tail = struct.pack(f"<Q{len(chain) + 1}Q", PERIOD, len(chain), *chain)
        size = 8 + 24 + 8 + len(self.tail)
        self.head = struct.pack("<IHHQii", SAMPLE, KERNEL if kernel else USER, size, chain[1], pid, pid)

    def at(self, time, cpu):
        return self.head + struct.pack("<QQ", time, cpu) + self.tail


def string(text):
    text = text.encode() + b"\0"
    size = (len(text) + 63) & ~63
    return struct.pack("<I", size) + text.ljust(size, b"\0")


class Writer:
    """Begins a file. Write records to `out`; `finish` completes the file."""

    def __init__(self, path, command):
        self.path, self.command = path, command
        self.out = open(path + ".part", "wb", buffering=1 << 20)
        self.out.write(bytes(104))
        attr = struct.pack("<IIQQQQQ", 1, 128, 0, HERTZ, SAMPLE_TYPE, 0, FLAGS)
        self.out.write(attr.ljust(128, b"\0") + bytes(16))
        self.start = self.out.tell()

    def finish(self):
        end = self.out.tell()
        uname = os.uname()
        words = self.command.split()
        sections = {
            HOSTNAME: string(uname.nodename),
            OSRELEASE: string(uname.release),
            ARCH: string(uname.machine),
            NRCPUS: struct.pack("<II", 2, 2),
            CMDLINE: struct.pack("<I", len(words)) + b"".join(map(string, words)),
        }
        at, table = end + 16 * len(sections), b""
        for bit in sorted(sections):
            table += struct.pack("<QQ", at, len(sections[bit]))
            at += len(sections[bit])
        self.out.write(table + b"".join(sections[bit] for bit in sorted(sections)))
        bits = sum(1 << bit for bit in sections)
        self.out.seek(0)
        self.out.write(struct.pack("<8sQQQQQQQQ4Q", b"PERFILE2", 104, 144, 104, 144, self.start,
                                   end - self.start, 0, 0, bits, 0, 0, 0))
        self.out.close()
        os.replace(self.path + ".part", self.path)
