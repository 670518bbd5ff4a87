"""How fast is a log grouped, in how much memory, and how does that grow with its rows?

    python benchmarks/read_log.py                      # 5 and 50 million rows
    python benchmarks/read_log.py --rows 2000000       # other sizes

Each log is a Parquet file that DuckDB generates from a seed, with a long tail of queries and
products; it is read by a process of its own, whose peak memory is the kernel's count.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

BUDGET_GB = 6.0

# One query per ten rows (a search shows about as many products), with a long tail: the tenth that
# is asked most often has almost half of the rows. A query has up to 40 products, three spellings
# and a year of days, so that hardly two rows are the same: the worst case for memory.
GENERATE = """
COPY (
  SELECT
    CASE spelling WHEN 0 THEN upper(text) WHEN 1 THEN '  ' || text ELSE text END AS query,
    'SKU' || lpad(((query_id * 31 + (noise * noise * 40)::BIGINT) % {products})::VARCHAR, 8, '0')
      AS product_id,
    CASE WHEN chance < 0.70 THEN 'impression' WHEN chance < 0.95 THEN 'click' ELSE 'purchase' END
      AS event,
    TIMESTAMP '2025-10-01' + to_seconds((day * 31536000)::BIGINT) AS timestamp
  FROM (
    SELECT
      query_id, noise, chance, day, (noise * 8)::INTEGER AS spelling,
      list_extract(['red', 'blue', 'small', 'large', 'mens', 'kids', 'garden', 'kitchen'],
                   1 + query_id % 8) || ' ' ||
      list_extract(['shoe', 'lamp', 'pump', 'chair', 'cable', 'filter', 'jacket'],
                   1 + query_id % 7) || ' model ' || query_id AS text
    FROM (
      SELECT (pow(random(), 3) * {queries})::BIGINT AS query_id, random() AS noise,
             random() AS chance, random() AS day
      FROM range({rows})
    )
  )
) TO '{path}' (FORMAT parquet)
"""


def generate(path: Path, rows: int) -> None:
    """Write a log of this many rows."""
    with duckdb.connect(config={"threads": 1}) as connection:  # one thread: the seed decides
        connection.execute("SELECT setseed(0.5)")
        sizes = {"queries": max(rows // 10, 1), "products": max(rows // 25, 1)}
        connection.execute(GENERATE.format(path=path, rows=rows, **sizes))


def measure(path: str) -> None:
    """Read a log in this process and print what it took."""
    from matchset.data.log_reader import read_log  # so that the parent stays small

    before = time.perf_counter()
    log = read_log(path)
    found = {
        "seconds": time.perf_counter() - before,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "rows": log.report.rows,
        "groups": len(log),
        "queries": len(log.queries),
        "products": len(log.products),
    }
    print(json.dumps(found))


def main() -> int:
    """Print one line per size; fail if one of them needed too much memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000, 50_000_000])
    parser.add_argument("--folder", type=Path, help="where to generate; default: temporary")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return 0
    found = []
    print(f"{'rows':>12} {'groups':>12} {'queries':>11} {'seconds':>8} {'rows/s':>10} {'peak':>8}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for rows in options.rows:
            path = Path(folder) / f"log{rows}.parquet"
            generate(path, rows)
            command = [sys.executable, __file__, "--measure", str(path)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            result = json.loads(out.splitlines()[-1])
            found.append(result)
            path.unlink()
            print(
                f"{result['rows']:>12,} {result['groups']:>12,} {result['queries']:>11,} "
                f"{result['seconds']:>8.1f} {result['rows'] / result['seconds']:>10,.0f} "
                f"{result['peak_gb']:>5.2f} GB"
            )
    first, last = found[0], found[-1]
    if len(found) > 1:
        print(
            f"{last['rows'] / first['rows']:.1f} times the rows: "
            f"{last['seconds'] / first['seconds']:.1f} times the time, "
            f"{last['peak_gb'] / first['peak_gb']:.1f} times the memory"
        )
    is_within = all(result["peak_gb"] <= BUDGET_GB for result in found)
    print(f"budget of {BUDGET_GB:g} GB: {'kept' if is_within else 'exceeded'}")
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
