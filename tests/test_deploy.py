"""What is in deploy/ fits the server: its flags, metrics and routes; and the tools accept it."""

import json
import re
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

from matchset.cli.commands import app
from matchset.serve import endpoints, prometheus

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
UNIT = (DEPLOY / "matchset.service").read_text()


def instructions(name):
    return re.findall(rf"^{name} +(.+)$", DOCKERFILE, flags=re.MULTILINE)


def parse(words):
    """The command that the words call; an unknown flag is an error."""
    command, _, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    return command.__name__


def test_the_wheel_carries_the_licenses_of_what_is_compiled_in():
    carried = {
        file.name: file for file in distribution("matchset").files if "licenses" in str(file)
    }
    assert set(carried) == {"LICENSE", "NOTICE"}
    told = carried["NOTICE"].read_text(encoding="utf-8")
    version = (ROOT / "native" / "unicode_tables.inc").read_text().split()[2].rstrip(",")
    for word in ("nanobind", "robin-map", f"Unicode Character Database {version}"):
        assert word in told
    named = (ROOT / "NOTICE").read_text(encoding="utf-8")
    generated = [file.name for file in (ROOT / "native").glob("*.inc")]
    for word in (*generated, "simd.hpp", "Apache Arrow", "splitmix64", "runtime library exception"):
        assert word in named


def test_the_container_starts_a_server_that_exists():
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["matchset"]
    assert parse(json.loads(instructions("CMD")[-1])) == "serve"


def test_the_container_copies_what_is_there_and_does_not_run_as_root():
    copied = [word for line in instructions("COPY") for word in line.split()[:-1]]
    assert copied
    assert all((ROOT / word).exists() for word in copied)
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{word}" for word in copied} == {line for line in kept if line.startswith("!")}
    last_stage = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER +(\d+)$", last_stage, flags=re.MULTILINE)[1] != "0"


def test_the_health_check_asks_a_route_that_exists():
    [path] = re.findall(r"http://127\.0\.0\.1:8080(/\w+)", instructions("HEALTHCHECK")[0])
    assert f'"{path}"' in Path(endpoints.__file__).read_text()


def test_the_unit_starts_a_server_that_exists():
    [command] = re.findall(r"^ExecStart=\S+/matchset (.+)$", UNIT, flags=re.MULTILINE)
    assert parse(command.split()) == "serve"


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "matchset.service"
    unit.write_text(UNIT.replace("/opt/matchset/bin/matchset", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_metric_of_an_alert_exists():
    def families(names):
        return {re.sub(r"_(total|bucket)$", "", name) for name in names}

    asked = families(re.findall(r"matchset_\w+", (DEPLOY / "alerts.yml").read_text()))
    counted = families(re.findall(r'"(matchset_\w+)"', Path(prometheus.__file__).read_text()))
    assert asked
    assert asked <= counted


def test_promtool_accepts_the_alerts_and_they_fire_when_they_should():
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool (Debian: apt install prometheus)")
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=DEPLOY, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
