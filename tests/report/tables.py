"""Answers the queries of docs/fleet.md over the folder `profiles` with DuckDB: as JSON, the rows of the query that is named."""

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
