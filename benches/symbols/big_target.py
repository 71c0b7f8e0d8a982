#!/usr/bin/env python3
"""Generates a C++ program with more than 200 MB of DWARF, deterministically.

    benches/symbols/big_target.py FOLDER [--units N]

FOLDER/big is the program. Each unit uses many templates: containers of its own types, algorithms over
them, regular expressions, callbacks. Compiled with -O2 -g, so that most calls are inlined. Needs g++, and
some minutes of CPU time on all cores.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess

UNIT = """
#include <algorithm>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace unit@N@ {

template <int K> struct Item {
    std::string name;
    std::vector<double> values;
    std::optional<int> rank;
    double weight() const {
        return std::accumulate(values.begin(), values.end(), double(K));
    }
    bool operator<(const Item &other) const {
        return std::tie(name, rank) < std::tie(other.name, other.rank);
    }
};

template <int K> struct Shelf {
    std::map<std::string, std::vector<Item<K>>> items;
    std::unordered_map<int, std::shared_ptr<Item<K>>> by_rank;
    std::set<Item<K>> sorted;
    std::function<double(const Item<K> &)> measure = [](const Item<K> &item) { return item.weight(); };

    void add(Item<K> item) {
        auto shared = std::make_shared<Item<K>>(item);
        if (item.rank) by_rank[*item.rank] = shared;
        sorted.insert(item);
        items[item.name].push_back(std::move(item));
    }
    double total() const {
        double sum = 0;
        for (const auto &[name, list] : items) {
            auto copy = list;
            std::sort(copy.begin(), copy.end());
            std::stable_sort(copy.begin(), copy.end(), [](const auto &a, const auto &b) {
                return a.weight() < b.weight();
            });
            for (const auto &item : copy) sum += measure(item);
        }
        return sum;
    }
    std::string show() const {
        std::ostringstream out;
        for (const auto &item : sorted) out << item.name << ':' << item.weight() << '\\n';
        return out.str();
    }
};

template <int K> double work(int rounds) {
    Shelf<K> shelf;
    std::variant<int, std::string, Item<K>> any;
    for (int i = 0; i < rounds; i++) {
        Item<K> item{"n" + std::to_string(i * K % 17), {double(i), double(K)}, i};
        any = item;
        std::visit([&](auto &&value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, Item<K>>) shelf.add(value);
        }, any);
    }
    return shelf.total() + shelf.show().size();
}

bool matches(const std::string &text) {
    static const std::regex pattern("n([0-9]+):(.*)@N@");
    std::smatch found;
    return std::regex_search(text, found, pattern) && found.size() > 1;
}

}  // namespace unit@N@

double run@N@(int rounds) {
    using namespace unit@N@;
    return @SUM@ + matches("n1:@N@");
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    def compile_unit(number):
        source = options.folder / f"unit{number}.cpp"
        total = " + ".join(f"work<{number * 100 + k}>(rounds)" for k in range(6))
        source.write_text(UNIT.replace("@N@", str(number)).replace("@SUM@", total))
        target = source.with_suffix(".o")
        # Debug information has relative paths, independent of the folder's name.
        command = ["g++", "-std=c++17", "-O2", "-g", "-c", "-ffile-prefix-map=%s=/big" % options.folder]
        subprocess.run([*command, "-o", target, source], check=True)
        return target

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        objects = list(pool.map(compile_unit, range(options.units)))
    main_source = options.folder / "main.cpp"
    calls = "".join(f"double run{n}(int);\n" for n in range(options.units))
    body = "".join(f"    sum += run{n}(argc * 40);\n" for n in range(options.units))
    text = f"#include <cstdio>\n{calls}int main(int argc, char **) {{\n    double sum = 0;\n{body}"
    main_source.write_text(text + '    std::printf("%g\\n", sum);\n}\n')
    program = options.folder / "big"
    subprocess.run(["g++", "-O2", "-g", "-o", program, main_source, *objects, "-pthread"], check=True)
    print(program)


if __name__ == "__main__":
    main()
