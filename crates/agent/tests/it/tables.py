"""Runs a named query of docs/fleet.md on the folder `profiles` with DuckDB. Prints its rows as JSON."""

import json
import re
import sys

import duckdb

page, name = sys.argv[1:]
with open(page) as file:
    blocks = dict(re.findall(r"```sql\n-- (\w+)\n(.*?)```", file.read(), re.S))
duckdb.execute(blocks["tables"])
rows = duckdb.execute(blocks[name]).fetchall()
print(json.dumps(rows))
