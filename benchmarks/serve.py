"""A server under load: how many requests, how fast, and what an answer costs beside an empty one.

    python benchmarks/serve.py                    # 200,000 products, three rounds of 10 s
    python benchmarks/serve.py --parts tree       # the tree alone
    python benchmarks/serve.py --soak 600         # and ten minutes at half of what saturates it
    python benchmarks/serve.py --experiment       # only what an experiment costs

Two workers of `matchset serve`, loaded by wrk from a process of its own over loopback: GET
/v1/match at k = 100 with 10,000 different queries, and /healthz, which does nothing, in turn. First
as fast as it goes; then at half of the rate that match reached, for both. For the steady rate each
connection waits by chance between requests (autocannon sends each second's requests at once, which
measures saturation at any rate). Load generator and server share the machine; the server writes no
access log.

With --experiment two servers take turns, saturated: one serves the model, one an experiment whose
arms are both that model. Requests are the same, each with a unit of its own.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from statistics import median

import urllib3
from serving import Load, Server, load, make_model, serve

KINDS = {"match": "paths", "empty": "empty"}
MEAN_WAIT = 0.016  # seconds that a connection waits when the rate is held


def main() -> None:
    """Start a server, load it, print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=200_000)
    parser.add_argument("--parts", nargs="+", help="by default those of a match set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    parser.add_argument("--soak", type=int, default=0, help="seconds at half of what saturates it")
    parser.add_argument("--experiment", action="store_true", help="only what one costs")
    options = parser.parse_args()
    folder = make_model(options.products, options.parts)
    if options.experiment:
        run_experiment(folder, options)
        return
    with serve(folder / "model") as server:
        for what in KINDS.values():  # pages of the model, branches of the code
            load(folder, server.url, what, seconds=2)
        full = run_rounds(folder, server, options)
        half = median(one.rate for one in full["match"]) / 2
        steady = run_rounds(folder, server, options, rate=half)
        print(f"\n{options.products:,} products, {options.rounds} rounds of {options.seconds} s\n")
        report(full, steady, half, server.memory())
        if options.soak:
            soak(folder, server, options.soak, half)


def run_experiment(folder: Path, options: argparse.Namespace) -> None:
    """The same requests without and with an experiment, in turn, and what became of records."""
    import matchset as ms

    paths = (folder / "paths.txt").read_text().splitlines()
    units = [f"{path}&unit=user-{number}" for number, path in enumerate(paths)]
    (folder / "units.txt").write_text("\n".join(units) + "\n")
    file, records = folder / "experiment.toml", folder / "records"
    matcher = ms.load(folder / "model").kind
    arms = "".join(f'[[arms]]\nname = "{arm}"\nmatcher = "{matcher}"\n' for arm in "ab")
    file.write_text(f'name = "same"\nsalt = "salt"\n{arms}')
    shutil.rmtree(records, ignore_errors=True)
    experiment = ("--experiment", file, "--records", records)
    with serve(folder / "model") as without, serve(folder / "model", *experiment) as running:
        servers = {"without": without, "experiment": running}
        for server in servers.values():
            load(folder, server.url, "units", seconds=2)
        seen: dict[str, list[Load]] = {name: [] for name in servers}
        cpu: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(options.rounds):
            for name, server in servers.items():
                before = server.cpu_seconds()
                seen[name].append(load(folder, server.url, "units", seconds=options.seconds))
                used = server.cpu_seconds() - before
                cpu[name].append(1e6 * used / seen[name][-1].requests)
        metrics = urllib3.request("GET", f"{running.url}/metrics").data.decode()
    print(f"\n{options.products:,} products, {options.rounds} rounds of {options.seconds} s\n")
    print("| | without | with an experiment | |\n|---|---|---|---|")
    rates = [median(one.rate for one in each) for each in seen.values()]
    loss = [1 - b.rate / a.rate for a, b in zip(*seen.values(), strict=True)]
    lost = f"{100 * median(loss):.1f} % lost (wanted: at most 10 %)"
    print(f"| requests per second, saturated | {rates[0]:,.0f} | {rates[1]:,.0f} | {lost} |")
    a, b = (median(each) for each in cpu.values())
    more = f"{100 * (b / a - 1):+.1f} %"
    print(f"| CPU time of the workers, us per request | {a:.0f} | {b:.0f} | {more} |")
    for name in ("p50", "p99"):
        a, b = (median(getattr(one, name) for one in each) for each in seen.values())
        print(f"| {name}, ms | {a:.2f} | {b:.2f} | {b - a:+.2f} ms |")
    errors = [sum(one.errors for one in each) for each in seen.values()]
    print(f"| errors | {errors[0]} | {errors[1]} | |\n")
    print("\n".join(line for line in metrics.splitlines() if line.startswith("matchset_records")))


def run_rounds(
    folder: Path, server: Server, options: argparse.Namespace, rate: float | None = None
) -> dict[str, list[Load]]:
    """Both kinds of request in turn."""
    seen: dict[str, list[Load]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind, what in KINDS.items():
            if rate is None:
                done = load(folder, server.url, what, seconds=options.seconds)
            else:
                done = hold(folder, server, what, rate, options.seconds)
            seen[kind].append(done)
    return seen


def hold(folder: Path, server: Server, what: str, rate: float, seconds: int) -> Load:
    """Load at a rate; a short try tells how much the answers themselves slow a connection down."""
    settings = {"connections": connections_for(rate)}
    tried = load(folder, server.url, what, seconds=2, rate=rate, **settings)
    asked = rate * min(2, rate / tried.rate)
    return load(folder, server.url, what, seconds=seconds, rate=asked, **settings)


def connections_for(rate: float) -> int:
    """So many that each waits far longer than for its answer."""
    return max(1, round(rate * MEAN_WAIT))


def report(
    full: dict[str, list[Load]],
    steady: dict[str, list[Load]],
    half: float,
    memory: dict[int, float],
) -> None:
    """A Markdown table of medians, match beside empty."""
    print("| | /v1/match, k = 100 | /healthz | |\n|---|---|---|---|")
    rates = [median(one.rate for one in full[kind]) for kind in KINDS]
    share = f"{100 * rates[0] / rates[1]:.0f} % of the empty one (wanted: 33 %)"
    print(f"| requests per second, saturated | {rates[0]:,.0f} | {rates[1]:,.0f} | {share} |")
    for seen, when in ((full, "saturated"), (steady, f"at {half:,.0f} per second")):
        for name in ("p50", "p99"):
            ours, empty = (median(getattr(one, name) for one in seen[kind]) for kind in KINDS)
            wanted = " (wanted: at most 3 ms)" if seen is steady and name == "p99" else ""
            more = f"{ours - empty:+.2f} ms{wanted}"
            print(f"| {name}, {when}, ms | {ours:.2f} | {empty:.2f} | {more} |")
    held = [median(one.rate for one in steady[kind]) for kind in KINDS]
    print(f"| rate that was held | {held[0]:,.0f} | {held[1]:,.0f} | |")
    errors = [sum(one.errors for one in full[kind] + steady[kind]) for kind in KINDS]
    print(f"| errors | {errors[0]} | {errors[1]} | |")
    owned = " and ".join(f"{each:.1f}" for each in memory.values())
    print(f"| own memory of the workers, MB | {owned} | | (wanted: at most 101) |")


def soak(folder: Path, server: Server, seconds: int, rate: float) -> None:
    """Hold a rate for long, and see what memory and errors do."""
    before = server.memory()
    seen = hold(folder, server, "paths", rate, seconds)
    after = server.memory()
    print(f"\n{seconds} s at {seen.rate:,.0f} per second: {seen.requests:,} requests, ", end="")
    print(f"{seen.errors} errors, p50 {seen.p50:.2f} ms, p99 {seen.p99:.2f} ms\n")
    print("| worker | own memory before, MB | after, MB | |\n|---|---|---|---|")
    for worker in before.keys() | after.keys():
        begin, end = before.get(worker, float("nan")), after.get(worker, float("nan"))
        print(f"| {worker} | {begin:.1f} | {end:.1f} | {end - begin:+.1f} |")


if __name__ == "__main__":
    main()
