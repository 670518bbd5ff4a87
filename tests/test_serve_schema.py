"""Schemathesis sends a running server what its schema allows, and what it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving import KEY, serving

TESTS = Path(__file__).parent


@pytest.mark.schema
def test_the_server_follows_its_schema(served_shop):
    also = ["--also", served_shop / "bm25", "--log", served_shop / "log.parquet"]
    with serving(served_shop, *also, "--api-key-file", served_shop / "keys") as server:
        command = [
            Path(sys.executable).with_name("schemathesis"),
            "--config-file", TESTS / "schemathesis.toml",
            "run", f"{server.address}/openapi.json",
            "--max-examples", "60", "--seed", "1", "--no-color",
            "--header", f"authorization: Bearer {KEY}",
        ]  # fmt: skip
        done = subprocess.run(
            command,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
                "PYTHONPATH": str(TESTS),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr
        assert server.stop() == 0
        assert "error" not in {line["level"] for line in server.lines()}
