"""On the machines of a Ray cluster, a training gives the bytes that it gives here."""

import threading
import time
from pathlib import Path

import pytest
from digests import digests
from match_sets import cut_stages, make_config, make_shop

import matchset as ms
from matchset.learn import layers
from matchset.work import ray_engine
from matchset.work.ray_engine import STORE_BYTES, RayEngine
from matchset.work.results import WorkFolder
from matchset.work.tasks import Stage, Task, run_stages

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of Ray's own processes and sockets
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
SMALL = {"object_store_memory": STORE_BYTES}


@pytest.fixture
def cluster(monkeypatch):
    """A head without cores, and three machines with one core each."""
    import ray
    from ray.cluster_utils import Cluster

    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", f"{here}:{here.parent}", prepend=":")
    found = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
        },
    )
    found.machines = [found.add_node(num_cpus=1, **SMALL) for _ in range(3)]
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def train(n_queries=1000, **options):
    return ms.train(*make_shop(n_queries, days=60), make_config(), **options)


def note(job, name, folder, seconds=1):
    """A task that writes down where it began."""
    import ray

    with (Path(folder) / name).open("a") as journal:
        journal.write(ray.get_runtime_context().get_node_id() + "\n")
    time.sleep(seconds)
    return {"value": name}


def find_busy(journal, results):
    """The machine of a task that has begun and is not done."""
    begun = [file for file in journal.iterdir() if not results.has(file.name)]
    return begun[-1].read_text().split()[-1] if begun else None


def test_a_cluster_gives_the_same_bytes(cluster, tmp_path, monkeypatch):
    cut_stages(monkeypatch)
    trained = train(200, work=tmp_path / "work", engine="ray")
    for stage in ("data.rows", "embed.sums", "tree.part", "encode.0.nearest", "pack.part"):
        assert len(list((tmp_path / "work" / "final" / stage).iterdir())) > 2
    monkeypatch.undo()
    assert digests(trained) == digests(train(200))


def test_a_machine_that_is_lost_costs_its_tasks_and_no_others(cluster, tmp_path):
    journal = tmp_path / "journal"
    journal.mkdir()
    results = WorkFolder(tmp_path / "work")
    given = {"folder": str(journal)}
    # The first one is soon done; then a machine is killed amid one of the others.
    seconds = [0.5, *[5.0] * 5]
    tasks = [
        Task(f"t{i}", note, {"name": f"t{i}", "seconds": each, **given})
        for i, each in enumerate(seconds)
    ]

    def kill(_):
        busy = find_busy(journal, results)
        if len(cluster.machines) == 3 and busy is not None:
            lost = next(node for node in cluster.machines if node.node_id == busy)
            cluster.machines.remove(lost)
            cluster.remove_node(lost, allow_graceful=False)

    run_stages([Stage("many", lambda _: tasks)], results, RayEngine(results), on_done=kill)
    assert [results.get(task.name, "value") for task in tasks] == [task.name for task in tasks]
    assert len(cluster.machines) == 2
    n_begun = sum(len((journal / task.name).read_text().split()) for task in tasks)
    assert 6 < n_begun <= 8  # once more: what ran on the lost machine, or was on its way there


def test_a_machine_is_lost_during_training_and_the_bytes_are_the_same(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(layers, "LEAST_COST", 500)
    killed = threading.Event()

    def kill(step):
        if step.stage == "solve" and step.is_tuning and not killed.is_set():
            killed.set()
            cluster.remove_node(cluster.machines.pop(), allow_graceful=False)

    trained = train(work=tmp_path / "work", engine="ray", progress=kill)
    assert killed.is_set()
    assert digests(trained) == digests(train())


def test_what_asked_for_the_largest_machine_goes_to_another_when_that_is_lost(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_engine, "PATIENCE", 1.0)
    large = cluster.add_node(num_cpus=2, **SMALL)
    cluster.wait_for_nodes()
    results = WorkFolder(tmp_path / "work")
    engine = RayEngine(results)
    assert engine._count_cores(max) == 2
    journal = tmp_path / "journal"
    journal.mkdir()
    arguments = {"folder": str(journal)}
    tasks = [Task(n, note, {"name": n, **arguments}, is_wide=True) for n in ("first", "second")]
    for task in tasks:
        engine.submit(task, lambda *_: None)
    cluster.remove_node(large, allow_graceful=False)
    done = [task.name for _ in tasks for task in engine.wait()]
    assert sorted(done) == ["first", "second"]
