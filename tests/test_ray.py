"""On the machines of a Ray cluster, a training gives the bytes that it gives here."""

import threading
import time
from pathlib import Path

import pytest
from digests import digests
from match_sets import SMALL_CUTS, train_in_tasks
from word_shop import make_config, make_shop

from matchset.work.cuts import CUTS
from matchset.work.ray_pool import STORE_BYTES, RayPool, connect

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


def train(n_queries=1000, cuts=CUTS, **options):
    return train_in_tasks(*make_shop(n_queries, days=60), make_config(), cuts, **options)


def note(file, seconds):
    """Write down where a task began."""
    import ray

    with Path(file).open("a") as journal:
        journal.write(ray.get_runtime_context().get_node_id() + "\n")
    time.sleep(seconds)
    return Path(file).name


def test_a_cluster_gives_the_same_bytes(cluster, tmp_path):
    trained = train(200, SMALL_CUTS, work=tmp_path / "work", engine="ray")
    (results,) = (tmp_path / "work").iterdir()
    for step in ("vectorize.rows", "embed", "tree.part", "encode.nearest0", "pack"):
        assert len(list((results / "final" / step).iterdir())) > 2
    assert digests(trained) == digests(train(200))


def test_a_machine_that_is_lost_costs_its_tasks_and_no_others(cluster, tmp_path):
    """The first task is soon done; then a machine is killed amid one of the others."""
    files = [tmp_path / f"t{i}" for i in range(6)]
    with connect() as cores:
        assert cores == 1
        pool = RayPool(1, tmp_path)
        tasks = [pool.submit(note, str(file), 5.0 if i else 0.5) for i, file in enumerate(files)]
        assert tasks[0].result() == "t0"
        busy = next(file.read_text() for file in files[1:] if file.exists()).split()[-1]
        lost = next(node for node in cluster.machines if node.node_id == busy)
        cluster.machines.remove(lost)
        cluster.remove_node(lost, allow_graceful=False)
        assert [task.result() for task in tasks] == [file.name for file in files]
    n_begun = sum(len(file.read_text().split()) for file in files)
    assert 6 < n_begun <= 8  # once more: what ran on the lost machine, or was on its way there


def test_a_machine_is_lost_during_training_and_the_bytes_are_the_same(cluster, tmp_path):
    killed = threading.Event()

    def kill(step):
        if step.stage == "solve" and step.is_tuning and not killed.is_set():
            killed.set()
            cluster.remove_node(cluster.machines.pop(), allow_graceful=False)

    trained = train(200, SMALL_CUTS, work=tmp_path / "work", engine="ray", progress=kill)
    assert killed.is_set()
    assert digests(trained) == digests(train(200))


def test_tasks_fit_on_the_smallest_machine_so_that_the_largest_can_be_lost(cluster):
    cluster.add_node(num_cpus=2, **SMALL)
    cluster.wait_for_nodes()
    with connect() as cores:
        assert cores == 1


def test_what_a_task_raises_on_a_machine_is_raised_here(cluster, tmp_path):
    with pytest.raises(ValueError, match="invalid literal"):
        RayPool(1, tmp_path).submit(int, "seven").result()
