"""Function addresses in ELF files, and in the running kernel."""

import mmap
import os
import random
import struct

LOAD, EXECUTABLE = 1, 1
SYMTAB, DYNSYM = 2, 11
FUNC = 2


class Image:
    """An ELF file of this machine, with its functions as (file offset, size)."""

    def __init__(self, path):
        self.path = os.path.realpath(path)
        stat = os.stat(self.path)
        self.device = (os.major(stat.st_dev), os.minor(stat.st_dev))
        self.inode = stat.st_ino
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            self._read(data)

    def _read(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{self.path}: not a 64-bit little-endian ELF file")
        self.fixed = struct.unpack_from("<H", data, 16)[0] == 2
        phoff, shoff = struct.unpack_from("<QQ", data, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", data, 54)
        self.text = None
        for n in range(phnum):
            kind, flags, offset, vaddr, _, filesz = struct.unpack_from("<IIQQQQ", data, phoff + n * phentsize)
            if kind == LOAD and flags & EXECUTABLE and self.text is None:
                self.text = (offset, vaddr, filesz)
        if self.text is None:
            raise ValueError(f"{self.path}: no code")
        start, vaddr, size = self.text
        functions = {}
        for n in range(shnum):
            at = shoff + n * shentsize
            kind, = struct.unpack_from("<I", data, at + 4)
            if kind not in (SYMTAB, DYNSYM):
                continue
            offset, length = struct.unpack_from("<QQ", data, at + 24)
            for _, info, _, section, value, bytes_ in struct.iter_unpack("<IBBHQQ", data[offset:offset + length // 24 * 24]):
                if info & 15 == FUNC and section and bytes_ >= 8 and vaddr <= value < vaddr + size:
                    functions[value - vaddr + start] = bytes_
        self.functions = sorted(functions.items())
        if len(self.functions) < 4:
            # Stripped: uses addresses in its code, which have no names.
            step = max(size // 64, 16)
            self.functions = [(start + at, min(step, 256)) for at in range(0, size - 16, step)]

    def base(self, slot):
        """Returns a mapping address as the loader would choose it. Non-PIE programs have their fixed address."""
        offset, vaddr, _ = self.text
        if self.fixed:
            return vaddr & ~0xFFF
        return 0x7F00_0000_0000 + slot * 0x1000_0000 + (offset & ~0xFFF)

    @property
    def length(self):
        offset, _, size = self.text
        return ((offset & 0xFFF) + size + 0xFFF) & ~0xFFF

    def address(self, slot, offset):
        return self.base(slot) + offset - (self.text[0] & ~0xFFF)


class Kernel:
    """Functions of the running kernel as (address, size). Empty if addresses are hidden."""

    def __init__(self):
        self.text, self.functions = None, []
        starts = []
        with open("/proc/kallsyms") as file:
            for line in file:
                words = line.split()
                if len(words) != 3:
                    continue
                address = int(words[0], 16)
                if words[2] == "_text":
                    self.text = address
                if words[2] == "_etext":
                    self.end = address
                if words[1] in "tT" and address:
                    starts.append(address)
        if not self.text:
            raise SystemExit("compare: the kernel hides its addresses; run as root, or lower kernel.kptr_restrict")
        starts = sorted(a for a in set(starts) if self.text <= a < self.end)
        self.functions = [(a, b - a) for a, b in zip(starts, starts[1:]) if 16 <= b - a < 1 << 16]


def random_text(program, count, folder):
    """Writes deterministic random addresses of a program's code to two files: as file offsets, and as
    SVMAs."""
    offset, vaddr, size = Image(program).text
    random_ = random.Random(7)
    places = [random_.randrange(size) for _ in range(count)]
    paths = []
    for name, base in (("offsets", offset), ("addresses", vaddr)):
        paths.append(os.path.join(folder, name))
        with open(paths[-1], "w") as out:
            out.writelines(f"{base + place:#x}\n" for place in places)
    return paths
