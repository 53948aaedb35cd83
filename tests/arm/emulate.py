"""Compare golden.py here with golden.py on an emulated arm64 machine, with every kernel.

Debian packages and wheels of arm64 are downloaded into .arm64 and unpacked; nothing is installed, and neither a chroot
nor a change of the system is needed.  ``qemu-aarch64-static`` comes the same way if it isn't there.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACE = ROOT / ".arm64"
PACKAGES = [
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libc6",
    "libssl3",
    "zlib1g",
    "libexpat1",
    "libgcc-s1",
    "libstdc++6",
    "libffi8",
    "libbz2-1.0",
    "liblzma5",
    "libsqlite3-0",
    "libuuid1",
    "libcrypt1",
]
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
KERNELS = ("plain", "vector")


def apt(*command, cwd=None, arm=True):
    """Run apt-get with lists of its own, so that the system's are left alone."""
    state, cache = PLACE / "state", PLACE / "cache"
    for folder in (state / "lists" / "partial", cache / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    machine = "arm64" if arm else subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    options = {
        "APT::Architecture": machine, "APT::Architectures": machine, "Dir::State": state,
        "Dir::State::status": state / "status", "Dir::Cache": cache, "APT::Sandbox::User": "root",
    }  # fmt: skip
    given = [text for name, value in options.items() for text in ("-o", f"{name}={value}")]
    subprocess.run(["apt-get", "-q", *given, *command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def unpacked(packages, folder, arm):
    """Debian packages, unpacked into a folder."""
    debs = PLACE / f"debs-{folder.name}"
    debs.mkdir(parents=True, exist_ok=True)
    apt("update", arm=arm)
    apt("download", *packages, cwd=debs, arm=arm)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
    shutil.rmtree(debs)


def prepare():
    """The emulator, and the packages of an arm64 machine."""
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        emulator = str(PLACE / "host" / "usr" / "bin" / "qemu-aarch64-static")
        if not Path(emulator).exists():
            unpacked(["qemu-user-static"], PLACE / "host", arm=False)
    machine, wheels = PLACE / "machine", PLACE / "packages"
    if not (machine / "usr" / "bin" / "python3.11").exists():
        unpacked(PACKAGES, machine, arm=True)
    names = [f"{name}=={version(name)}" for name in ("numpy", "scipy", "numba", "threadpoolctl", "scikit-learn")]
    marks = PLACE / "packages.txt"
    if not marks.exists() or marks.read_text() != " ".join(names):
        shutil.rmtree(wheels, ignore_errors=True)
        downloads = PLACE / "wheels"
        platforms = [text for name in PLATFORMS for text in ("--platform", name)]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
             *platforms, "--python-version", "3.11", "--dest", downloads, *names], check=True,
        )  # fmt: skip
        for wheel in downloads.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(wheels)
        shutil.rmtree(downloads)
        marks.write_text(" ".join(names))
    return emulator, machine, wheels


def main():
    """Exit status 0 if all digests are the same."""
    PLACE.mkdir(exist_ok=True)
    plain = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "SKETCHLEARN_KERNEL")}
    here = subprocess.run(
        [sys.executable, HERE / "golden.py"], env={**plain, "PYTHONPATH": str(ROOT / "src")}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    emulator, machine, wheels = prepare()
    wrong = 0
    for kernel in KERNELS:
        there = subprocess.run(
            [emulator, "-L", machine, machine / "usr" / "bin" / "python3.11", HERE / "golden.py"],
            env={
                **plain, "PYTHONPATH": f"{wheels}:{ROOT / 'src'}", "SKETCHLEARN_KERNEL": kernel,
                "PYTHONHOME": str(machine / "usr"), "NUMBA_CACHE_DIR": str(PLACE / "numba"),
                "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if there.returncode:
            sys.stdout.write(there.stderr[-3000:])
        differ = [a for a, b in zip(here.stdout.splitlines(), there.stdout.splitlines(), strict=False) if a != b]
        good = not there.returncode and here.stdout == there.stdout
        wrong += not good
        lines = len(here.stdout.splitlines())
        sys.stdout.write(f"arm64, {kernel}: {lines} maps {'identical' if good else f'DIFFERENT {differ[:3]}'}\n")
        sys.stdout.flush()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
