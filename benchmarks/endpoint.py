"""The endpoint under load: 200 clients at the same time, 10 000 submissions, some of them bad.

    python benchmarks/endpoint.py

The workload is that of tests/federation/test_endpoint.py: 10 % duplicates, 5 % corrupt, 1 % hostile (another map, too
large), and ten connections that never finish what they began.  The sum must have exactly the right bytes.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "federation"))
from test_endpoint import PHI, crowd, workload

from sketchlearn.federation import Collector, Store


def main() -> None:
    """Serve, send, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--submissions", type=int, default=10_000)
    options = parser.parse_args()
    jobs, total, expected = workload(options.submissions)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        app = Collector(PHI, Path(folder) / "sum.db", body_timeout=5.0)
        server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error", ws="none", backlog=1024))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        begin = time.perf_counter()
        answers = crowd(port, jobs, options.clients)
        seconds = time.perf_counter() - begin
        server.should_exit = True
        thread.join()
        found = {status: answers.count(status) for status in expected}
        assert found == expected, (found, expected)
        assert app.sketch.to_bytes() == total.to_bytes()
        app.close()
        again = Store(Path(folder) / "sum.db", PHI)
        assert again.sketch.to_bytes() == total.to_bytes()
        size = (Path(folder) / "sum.db").stat().st_size
        again.close()
        print(
            f"{len(jobs):,} requests of {options.clients} clients in {seconds:.1f} s "
            f"({len(jobs) / seconds:.0f} a second); {found}; the right bytes; {size / 2**20:.1f} MB on disk"
        )


if __name__ == "__main__":
    main()
