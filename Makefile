# Three commands do everything, setup included:  make demo   make test   make docs   (make test-all: slow tests too)
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# make test-engines and make test-arm have environments of their own
ENGINES := $(VENV)-engines
FLOWER := $(VENV)-flower
FOREIGN := -W ignore::pytest.PytestUnraisableExceptionWarning -p no:cacheprovider

.PHONY: demo compiled test test-all test-engines test-arm test-gpu trust audit lint bench docs package experiments clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# loops are compiled once, before two processes would compile them side by side
compiled: $(VENV)/installed
	$(BIN)/python -c "from sketchlearn.kernels import warmup; warmup()"

test: $(VENV)/installed
	$(MAKE) --no-print-directory -j 2 lint compiled
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: lint
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n 2 --dist worksteal

$(ENGINES)/installed: pyproject.toml
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,ray,spark,delta,iceberg,mpi]' \
	    'moto[server]' 'pyiceberg[sql-sqlite]' 'pyspark[connect]' mpich
	touch $@

$(FLOWER)/installed: pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/pip install --quiet --disable-pip-version-check -e '.[flower,files]' pytest
	touch $@

# Ray, Spark (needs Java 17), MPI, an S3 server, table formats; Flower, which wants another Ray
test-engines: $(ENGINES)/installed $(FLOWER)/installed
	$(ENGINES)/bin/python -m pytest $(FOREIGN) tests/engines/test_ray.py
	$(ENGINES)/bin/python -m pytest $(FOREIGN) tests/engines/test_spark.py
	$(ENGINES)/bin/python -m pytest $(FOREIGN) tests/engines/test_spark_connect.py
	$(ENGINES)/bin/python -m pytest $(FOREIGN) tests/store/test_store.py -k spark
	$(ENGINES)/bin/python -m pytest $(FOREIGN) tests/engines/test_mpi.py tests/sources/test_remote.py \
	    tests/sources/test_lakes.py
	$(FLOWER)/bin/python -m pytest $(FOREIGN) tests/federation/test_flower.py

# golden bytes on emulated arm64 (needs qemu-user-static, and apt and pip to download from)
test-arm: $(VENV)/installed
	$(BIN)/python tests/arm/emulate.py

# kills at random points, parallel writers, ten thousand damaged files of each kind, two servers on one store, hostile
# fields, links and full disks: some minutes
trust: $(VENV)/installed
	$(BIN)/python tests/kills.py 100
	$(BIN)/python tests/fuzz.py 10000
	$(BIN)/python tests/attacks.py 20

# what worst neighbours reveal, measured, for every way to release: a quarter of an hour; one that was stopped goes on
audit: $(VENV)/installed
	$(BIN)/python benchmarks/privacy_audit.py --rows .audit.jsonl

# On a machine with a GPU, where CuPy is installed (pip install '.[gpu]'): fails, where `make test` skips, if there is none.
test-gpu: $(VENV)/installed
	SKETCHLEARN_REQUIRE_GPU=1 $(BIN)/python -m pytest tests/engines/test_gpu.py tests/kernels/test_cuda_source.py

$(VENV)/docs-installed: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

docs: $(VENV)/docs-installed
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# wheel and sdist, checked as a new user meets them: an empty environment, and a type checker from outside
package:
	rm -rf dist $(VENV)-package
	$(PYTHON) -m venv $(VENV)-package
	$(VENV)-package/bin/pip install --quiet --disable-pip-version-check build twine
	$(VENV)-package/bin/python -m build
	$(VENV)-package/bin/twine check --strict dist/*
	$(PYTHON) -m venv --clear $(VENV)-package
	$(VENV)-package/bin/pip install --quiet --disable-pip-version-check dist/*.whl mypy
	$(VENV)-package/bin/python tests/packaging/smoke.py
	$(VENV)-package/bin/mypy --strict tests/packaging/outside.py

bench: $(VENV)/installed
	$(BIN)/python benchmarks/sketching.py
	$(BIN)/python benchmarks/sources.py

# the literature's experiments (quick versions; FULL=1: published sizes, hours) and their page; resumable
experiments: $(VENV)/installed
	$(BIN)/python -m experiments run --all --jobs 2 $(if $(FULL),--full)
	$(BIN)/python -m experiments page

clean:
	rm -rf $(VENV) $(VENV)-package $(ENGINES) $(FLOWER) .arm64 .audit.jsonl build dist docs/_build docs/api/generated docs/gallery docs/sg_execution_times.rst
