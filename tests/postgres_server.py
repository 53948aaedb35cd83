"""A real PostgreSQL for tests, in a folder of its own."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest


def _binaries():
    found = shutil.which("postgres")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((p for p in candidates if (p / "initdb").exists() and (p / "postgres").exists()), None)


def _account():
    """PostgreSQL refuses to run as root: another account then, or None."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    return None


@contextmanager
def postgres_server():
    """The address of a server that runs as long as the context; skips the test where there is none."""
    psycopg = pytest.importorskip("psycopg")
    binaries, account = _binaries(), _account()
    if binaries is None:
        pytest.skip("no PostgreSQL here: install Debian's package postgresql, or put postgres on the PATH")
    if account is None:
        pytest.skip("PostgreSQL doesn't run as root and there is no other account")
    with tempfile.TemporaryDirectory(prefix="sl-pg-", dir="/tmp") as name:
        folder = Path(name)
        if account:
            os.chown(folder, account["user"], account["group"])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        initdb = [binaries / "initdb", "-D", folder / "db", "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*initdb, "--locale=C"], check=True, capture_output=True, cwd=folder, **account)
        options = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", str(folder), "-F"]
        server = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "db", *options], cwd=folder, stderr=subprocess.DEVNULL, **account
        )
        address = f"postgresql://tester@127.0.0.1:{port}/postgres"
        try:
            for _ in range(200):
                try:
                    psycopg.connect(address, connect_timeout=2).close()
                    break
                except psycopg.OperationalError:
                    time.sleep(0.1)
            yield address
        finally:
            server.terminate()
            server.wait(20)
