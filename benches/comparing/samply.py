"""Counts all and complete stacks in a recording of samply."""

import bisect
import json


class Names:
    """Functions by library and address, from the file of `--unstable-presymbolicate`."""

    def __init__(self, path):
        with open(path) as text:
            read = json.load(text)
        strings = read["string_table"]
        self.tables = {}
        for library in read["data"]:
            rows = sorted((row["rva"], row["size"] or 0, strings[row["symbol"]]) for row in library["symbol_table"])
            # Some images have no id.
            self.tables.setdefault(library["debug_name"], []).extend(rows)
        for rows in self.tables.values():
            rows.sort()

    def find(self, library, address):
        rows = self.tables.get(library["debugName"], [])
        at = bisect.bisect(rows, (address, 1 << 62, "")) - 1
        if at < 0 or rows[at][1] and address >= rows[at][0] + rows[at][1]:
            return None
        return rows[at][2]


def stacks(profile_path, names_path, is_root):
    """Returns (all, complete, worst ends) of the samples with user frames. `is_root` gets the names of the
    two outermost frames."""
    names = Names(names_path)
    with open(profile_path) as text:
        profile = json.load(text)
    kernel = {n for n, c in enumerate(profile["meta"]["categories"]) if c["name"] == "Kernel"}
    total = complete = 0
    ends = {}
    for thread in profile["threads"]:
        prefixes, frames = thread["stackTable"]["prefix"], thread["stackTable"]["frame"]
        table, functions, resources = thread["frameTable"], thread["funcTable"], thread["resourceTable"]
        strings = thread["stringArray"]

        def name(frame):
            function = table["func"][frame]
            resource = functions["resource"][function]
            found = None
            if resource is not None and resource >= 0 and resources["lib"][resource] is not None:
                found = names.find(profile["libs"][resources["lib"][resource]], table["address"][frame])
            return found or strings[functions["name"][function]]

        known = {}

        def judged(stack):
            """Returns whether there are user frames, whether they are complete, and where they end."""
            if stack not in known:
                outer, inner, user, at = None, None, False, stack
                while at is not None:
                    user |= table["category"][frames[at]] not in kernel
                    outer, inner, at = frames[at], outer, prefixes[at]
                last = name(outer)
                inside = name(inner) if inner is not None else ""
                # samply invents names for functions known only from unwinding information.
                known_as = "[unknown]" if last.startswith(("0x", "fun_")) else last
                known[stack] = (user, is_root(known_as, inside), last)
            return known[stack]

        samples = thread["samples"]
        for stack, weight in zip(samples["stack"], samples["weight"] or [1] * samples["length"]):
            if stack is None or not weight:
                continue
            user, rooted, last = judged(stack)
            if not user:
                continue
            total += weight
            complete += weight * rooted
            if not rooted:
                ends[last] = ends.get(last, 0) + weight
    return total, complete, sorted(ends.items(), key=lambda e: -e[1])
