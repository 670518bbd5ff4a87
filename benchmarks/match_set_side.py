"""One step of the match set benchmark in a process of its own: prints one line of JSON.

python match_set_side.py tuned|untuned FOLDER THREADS
python match_set_side.py measure|tree FOLDER SINGLES
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from problems import read, recall
from search_side import BEAM, K, choose, time_batch, time_singles

import matchset as ms
from matchset.config import PARTS, LearnConfig
from matchset.model.search import search_rule
from matchset.strings import Strings

BATCH = 5000


def train(folder: Path, threads: int, *, tune: bool) -> dict:
    """Read the log and the catalog, train, save; seconds of each stage and the peak of memory."""
    peak = Peak()
    started = time.perf_counter()
    config = ms.TrainConfig(parts=PARTS, tune=tune, learn=LearnConfig(threads=threads))
    matcher = ms.train(str(folder / "log.parquet"), str(folder / "products.parquet"), config)
    trained = time.perf_counter() - started
    matcher.save(folder / "match_set")
    seconds = dict(matcher.summary.seconds)
    seconds["other"] = trained - sum(seconds.values())
    seconds["save"] = time.perf_counter() - started - trained
    sizes: Counter[str] = Counter()
    for file in (folder / "match_set").iterdir():
        sizes[file.name.split(".")[0]] += file.stat().st_size
    return {"seconds": seconds, "sizes": sizes, "anon_mb": peak.stop(), "rss_mb": peak_memory()}


class Peak:
    """Largest private memory of this process, looked at 20 times a second."""

    def __init__(self) -> None:
        self.largest = 0.0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        """Until `stop` is called."""
        while not self.is_over.wait(0.05):
            self.largest = max(self.largest, private_memory())

    def stop(self) -> float:
        """The largest so far, in MB."""
        self.is_over.set()
        self.thread.join()
        return self.largest


def measure(folder: Path, singles: int) -> dict[str, float]:
    """The match set through Python, as a caller asks it."""
    started = time.perf_counter()
    matcher = ms.load(folder / "match_set")
    opened = time.perf_counter() - started
    texts, _ = read(folder, "test")
    figures = time_singles("text", lambda text: matcher.match(text, k=K).ids, texts, singles)
    model, vocabulary = matcher.model, matcher.vectorizer.native
    batch = Strings.of([texts[i] for i in choose(len(texts), BATCH)])
    figures["batch"] = time_batch(lambda: model.search_texts(vocabulary, batch, K), len(batch))
    started = time.perf_counter()
    matcher.match(list(batch), k=K)
    figures["batch_threads"] = (time.perf_counter() - started) / len(batch) * 1e6
    found = matcher.match(texts, k=K).found
    return {
        **figures,
        "open_ms": opened * 1e3,
        "anon_mb": private_memory(),
        "rss_mb": peak_memory(),
        **recall(folder, found.indptr, labels_of(folder, matcher.products.ids, found.indices)),
    }


def labels_of(folder: Path, ids: Strings, labels):
    """Labels of the match set as columns of the problem: products with a training pair."""
    known = ms.positives(ms.read_log(str(folder / "log.parquet"))).products
    columns = known.index_of(ids)[labels]
    columns[columns < 0] = len(known)  # cold: in no test pair, but it takes a rank
    return columns


def measure_tree(folder: Path, singles: int) -> dict[str, float]:
    """The tree inside the match set, without the other parts."""
    matcher = ms.load(folder / "match_set")
    tree, vocabulary, ids = matcher.model.tree, matcher.vectorizer.native, matcher.products.ids
    rule, (texts, _) = search_rule(K, BEAM), read(folder, "test")

    def ask(text: str) -> object:
        labels, _ = tree.search_text(vocabulary, text, rule)
        return ids.decode(labels)

    batch = Strings.of([texts[i] for i in choose(len(texts), BATCH)])
    figures = time_singles("text", ask, texts, singles)
    figures["batch"] = time_batch(lambda: tree.search_texts(vocabulary, batch, rule), len(batch))
    return {**figures, "anon_mb": private_memory(), "rss_mb": peak_memory()}


def private_memory() -> float:
    """RssAnon, in MB."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def peak_memory() -> float:
    """Of this process so far, mapped files included, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Do one step."""
    step, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if step in ("tuned", "untuned"):
        found: dict = train(folder, number, tune=step == "tuned")
    else:
        found = {"measure": measure, "tree": measure_tree}[step](folder, number)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
