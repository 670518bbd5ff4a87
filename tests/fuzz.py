"""Fuzzing: does anything that a stranger may send crash, hang, or fail in another way than it may?

    python tests/fuzz.py --minutes 10                 # all targets, new seeds each time
    python tests/fuzz.py --seed 1 --only arrays       # the same cases again
    python tests/fuzz.py --replay tests/fuzz_found    # cases that were kept

Each case is made from a seed, written down as JSON before it runs, and runs in a child process with
limits on time and memory. One that fails is kept in `tests/fuzz_found`, which the tests replay.
"""

import argparse
import json
import logging
import multiprocessing
import os
import resource
import secrets
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import fuzz_files
import fuzz_runs
import fuzz_texts

FOUND = Path(__file__).parent / "fuzz_found"
TARGETS = {
    "arrays": (fuzz_files.choose_arrays, fuzz_files.run_file),
    "headers": (fuzz_files.choose_header, fuzz_files.run_file),
    "bytes": (fuzz_files.choose_bytes, fuzz_files.run_file),
    "requests": (fuzz_texts.choose_request, fuzz_texts.run_request),
    "filters": (fuzz_texts.choose_filter, fuzz_texts.run_filter),
    "logs": (fuzz_texts.choose_log, fuzz_texts.run_log),
    "products": (fuzz_texts.choose_products, fuzz_texts.run_products),
    "experiments": (fuzz_texts.choose_experiment, fuzz_texts.run_experiment),
    "records": (fuzz_runs.choose_records, fuzz_runs.run_records),
    "work": (fuzz_runs.choose_work, fuzz_runs.run_work),
}
CASE_SECONDS = 30
LOOK_SECONDS = 0.05
MEMORY = 6 << 30  # of address space; a forged length must not ask for more
ROUND = 1000  # cases of a child, at most
TURN_SECONDS = 5  # of a target, before the next has its turn


def work(target, seed, numbers, models, note):
    """Run cases; the case at hand is on disk before it begins."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    choose, run = TARGETS[target]
    with tempfile.TemporaryDirectory() as scratch:
        for number in numbers:
            rng = np.random.default_rng([seed, sorted(TARGETS).index(target), number])
            case = choose(rng, models)
            note.write_text(json.dumps({"target": target, "number": number, "case": case}))
            try:
                with np.errstate(all="ignore"):
                    run(case, models, Path(scratch))
            except Exception:
                Path(f"{note}.error").write_text(traceback.format_exc())
                os._exit(1)
    note.unlink()


def run_round(target, seed, first, models, end):
    """Run a child until its cases or the time are over; returns (cases, a failed case or None)."""
    note = models.parent / f"{target}.case"
    Path(f"{note}.error").unlink(missing_ok=True)
    numbers = range(first, first + ROUND)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=work, args=(target, seed, numbers, models, note))
    child.start()
    last, begun, n_looks = "", "", 0
    while child.is_alive():
        child.join(LOOK_SECONDS)
        now = note.read_text() if note.exists() else ""
        if now != last:
            last, n_looks = now, 0
        n_looks += 1  # not by the clock: a machine that sleeps is no case that hangs
        is_late = n_looks * LOOK_SECONDS > CASE_SECONDS
        if is_late or (time.monotonic() > end and now != begun):
            child.kill()
            child.join()
            failed = {**json.loads(last), "failed": "hangs"} if is_late else None
            return count(last, first) + is_late, failed
        if time.monotonic() < end:
            begun = now  # one case more is waited for after the end: it may hang
    if child.exitcode == 0:
        return ROUND, None
    error = Path(f"{note}.error")
    how = error.read_text() if error.exists() else signal.Signals(-child.exitcode).name
    found = json.loads(note.read_text())
    return found["number"] - first + 1, {**found, "failed": how}


def count(note, first):
    try:
        return json.loads(note)["number"] - first
    except ValueError:  # nothing, or half written
        return 0


def keep(found):
    """Write a failed case where the tests find it."""
    FOUND.mkdir(exist_ok=True)
    kept = {name: found[name] for name in ("target", "case")}
    text = json.dumps(kept, indent=1)
    name = f"{found['target']}-{secrets.token_hex(3)}.json"
    (FOUND / name).write_text(text + "\n")
    last = found["failed"].strip().splitlines()
    print(f"FAILED {name}: {last[-1]}\n  " + "\n  ".join(last[-8:]), flush=True)


def replay(file, models, scratch):
    """Run a kept case in this process."""
    kept = json.loads(Path(file).read_text())
    with np.errstate(all="ignore"):
        TARGETS[kept["target"]][1](kept["case"], models, scratch)


def main():
    """Fuzz for a while, each target in turn, and print how many cases ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="by default another each time")
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--replay", type=Path, help="a folder of kept cases, or one")
    options = parser.parse_args()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        models.mkdir()
        fuzz_files.make_models(models)
        if options.replay:
            files = [options.replay] if options.replay.is_file() else options.replay.glob("*.json")
            for file in files:
                replay(file, models, Path(folder))
            return
        logging.disable()  # damaged results of a training are told of
        if "work" in options.only:
            fuzz_runs.make_work(models)  # once, for all children
        counts, n_failed = dict.fromkeys(options.only, 0), 0
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            for target in options.only:
                until = min(end, time.monotonic() + TURN_SECONDS)
                n_cases, found = run_round(target, seed, counts[target], models, until)
                counts[target] += n_cases
                if found is not None:
                    n_failed += 1
                    keep(found)
    shown = ", ".join(f"{n:,} {target}" for target, n in counts.items())
    print(f"seed {seed}: {shown}; {n_failed} failed")
    sys.exit(n_failed > 0)


if __name__ == "__main__":
    main()
