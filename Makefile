# Two commands: `make demo` runs the main job, `make test` checks everything. Both start from a
# fresh clone and install into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo docs test test-slow test-peers test-gpu test-gpus test-gpu-slow test-steady same lint types contract unit clean FORCE

demo: $(VENV)/installed
	$(BIN)/python examples/parity.py --out demo

test: lint types contract unit

lint: $(VENV)/installed
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# The package as a user has it: top-level folders become one package only in a wheel.
build/wheel: $(VENV)/installed FORCE
	rm -rf $@ build/lib
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target $@ .

types: build/wheel
	cd $< && ../../$(BIN)/python -m mypy --config-file ../../pyproject.toml -p rnnc

contract: build/wheel
	cd $< && PYTHONPATH=. ../../$(BIN)/lint-imports --config ../../pyproject.toml

# Two workers of one thread each: threads that wait for each other on a shared machine stall. Only
# tests/runtime/cpu compiles CPU kernels by the flags that ship, which take five times as long. Tests
# start many processes, which share the bytecode of the modules, whatever the caller's environment.
unit: $(VENV)/installed
	PYTHONDONTWRITEBYTECODE= RNNC_QUICK_COMPILE=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

# What takes long and rarely fails: every cell, head dim, dtype and architecture through the CUDA
# compiler, and planted faults. Tens of minutes.
test-slow: $(VENV)/installed
	RNNC_SLOW=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m slow

# Networks and training loops of other packages, which get an environment of their own.
test-peers: build/peers/installed
	OMP_NUM_THREADS=1 build/peers/bin/python -m pytest -q tests/peers

build/peers/installed: tests/peers/requirements.txt tests/peers/constraints.txt pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet -c tests/peers/constraints.txt \
		-r tests/peers/requirements.txt
	$(@D)/bin/python -m pip install --quiet -c tests/peers/constraints.txt \
		--no-build-isolation -e .
	touch $@

# The site, in build/site: pages of docs/, the gallery of cells, the notebooks, the reference. Nothing
# is fetched after the installation, and the same commit gives the same files. Then tests of the pages.
docs: $(VENV)/site build/wheel
	$(BIN)/python docs/site/prepare.py
	NO_MKDOCS_2_WARNING=1 SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0) \
		$(BIN)/python -m mkdocs build --strict --quiet
	RNNC_SITE=1 $(BIN)/python -m pytest -q tests/site
	@echo "The site is in build/site; open build/site/index.html"

build/site/index.html:
	$(MAKE) docs

$(VENV)/site: $(VENV)/installed docs/site/requirements.txt docs/site/constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -c docs/site/constraints.txt \
		-r docs/site/requirements.txt
	touch $@

# Pages in Chromium, headless. Where it is missing, the target says what to install, and fails.
test-web: $(VENV)/web build/site/index.html
	$(BIN)/python tests/web/browser.py
	RNNC_WEB=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/web

$(VENV)/web: $(VENV)/installed tests/web/requirements.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -r tests/web/requirements.txt
	touch $@

# By the GPU machine's own Python, whose torch has CUDA; nothing is fetched. PART=1/4 runs the first
# of four parts; JOBS=8 runs in eight processes, where pytest-xdist is installed.
test-gpu: build/gpu
	PYTHONPATH="$<:$$PYTHONPATH" RNNC_TEST_PART="$(PART)" $(PYTHON) -m pytest -q -m "not slow" \
		$(if $(JOBS),-n $(JOBS) --dist worksteal) tests/gpu

# Wavefronts in fresh processes, beside faults: about 150 cases, ten minutes. JOBS as in test-gpu.
test-steady: build/gpu
	PYTHONPATH="$<:$$PYTHONPATH" RNNC_STEADY=1 RNNC_TEST_PART="$(PART)" $(PYTHON) -m pytest -q \
		$(if $(JOBS),-n $(JOBS) --dist worksteal) tests/gpu/test_steady.py

# 300 recorded calls with this tree and with that of another commit, in turns: bits, sources, binaries,
# times, memory. OPTIONS="--device cuda" runs them on a GPU, by the machine's own Python; there, and
# wherever BASE is not given, build/same/checkout has the other tree.
same: $(if $(findstring cuda,$(OPTIONS)),,$(VENV)/installed)
	$(if $(BASE),rm -rf build/same/checkout && mkdir -p build/same/checkout)
	$(if $(BASE),git archive $(BASE) | tar -x -C build/same/checkout)
	$(if $(findstring cuda,$(OPTIONS)),$(PYTHON),$(BIN)/python) tests/same/compare.py \
		build/same/checkout . --work build/same $(OPTIONS)

# Two GPUs of one machine, connected by NCCL. At most eight minutes.
test-gpus: build/gpu
	PYTHONPATH="$<:$$PYTHONPATH" $(PYTHON) -m pytest -q -s tests/gpu/test_ranks.py \
		tests/gpu/test_devices.py

# Memory, races, barriers and uninitialised memory under compute-sanitizer, and what else takes long.
test-gpu-slow: build/gpu
	PYTHONPATH="$<:$$PYTHONPATH" RNNC_TEST_PART="$(PART)" $(PYTHON) -m pytest -q -m slow tests/gpu

build/gpu: FORCE
	rm -rf $@ build/lib
	$(PYTHON) -m pip install --quiet --no-index --no-deps --no-build-isolation --target $@ .

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt "setuptools>=77" wheel
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e ".[dev]"
	touch $@

clean:
	rm -rf build demo $(VENV)
