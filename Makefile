# The commands of this repository; each sets up what it needs, once.
BIN := .venv/bin

.PHONY: run unit test frameworks long kubernetes ray check golden bench screenshots pictures \
    site man packages pyz pythons freeze release-check setup setup-to-run clean

# Serves this machine's GPUs, or a simulated lab (which says so) where there is none.
run: setup-to-run
	@$(BIN)/python -m andon.drivers.shared.presence && exec $(BIN)/andon serve || exec $(BIN)/andon demo --port 26366

# Units and contracts: under half a minute, no root, no apt, no browser, no processes.
unit: setup
	@dev/unit

# Everything: 10 minutes on two cores. It says first what it installs and where.
test:
	@dev/parts --say
	@$(MAKE) --no-print-directory setup
	@dev/parts
	@dev/test

# Callbacks in real training loops, and notebooks: a minute, in an environment of its own.
frameworks: setup
	@dev/frameworks

# What takes too long for every change: all kills, every moment of the timelines, long fuzzing, a
# hundred examples of each property, all frameworks, two months of the calendar.
long: setup
	@ANDON_STORM=full ANDON_EVERY_LOOK=1 ANDON_FUZZ_SECONDS=$${ANDON_FUZZ_SECONDS:-900} \
	    $(BIN)/python -m pytest -q -s tests/integration/jobs/test_job_storm.py \
	    tests/integration/jobs/test_kill_storm.py tests/integration/leases/test_lease_invariants.py \
	    tests/unit/alerts/test_timelines.py tests/fuzz
	@dev/parts --long
	@dev/ptxas
	@$(BIN)/pip install --quiet --disable-pip-version-check kubernetes-validate
	@$(BIN)/python -m pytest -q -p dev.pytest_lanes --lanes=3 --hypothesis-profile=long tests/unit \
	    tests/contract
	@$(BIN)/python -m pytest -q -p dev.pytest_lanes --lanes=4 -m "long and not kubernetes" tests
	@dev/frameworks

# Jobs on a real API server, scheduler and controller manager: built once, 15 minutes of CPU.
kubernetes: setup
	@dev/kubernetes
	@$(BIN)/python -m pytest -q -m kubernetes tests/integration/jobs/test_kubernetes_real.py

# A real Ray of two nodes on this machine.
ray: setup
	@dev/ray
	@$(BIN)/python -m pytest -q -s -m ray tests/ray

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python frontend/build.py --check
	@dev/size

# Writes the golden files again; look at the difference before you commit it.
golden: setup
	@$(BIN)/python -m dev.metrics.index
	@UPDATE_GOLDEN=1 $(BIN)/python -m pytest tests/unit tests/integration/*/test_web_*.py \
	    tests/integration/access/test_server_matrix.py

bench: setup
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	@$(BIN)/python -m bench.sampling

# Pictures of every page of the board in .screenshots: look at them all.
screenshots: setup
	@dev/parts
	@PYTHONPATH=. $(BIN)/python dev/screenshots.py

# The pictures of the docs, as the board and `andon top` are now.
pictures: setup
	@dev/parts
	@PYTHONPATH=. $(BIN)/python -m dev.pictures

# The docs as pages with search in .build/site, which load nothing from elsewhere.
site: setup
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/python -m mkdocs build --quiet --strict
	@PYTHONPATH=. $(BIN)/python -m dev.site.loads .build/site

# Pages for man in .build/man, made from the commands: man -M .build/man andon-run
man: setup
	@PYTHONPATH=. $(BIN)/python -m dev.site.man .build/man

# Wheel and sdist in dist.
packages: setup
	@$(BIN)/python -m dev.release.packages

# andon.pyz in dist, one file for hosts without pip.
pyz: packages
	@$(BIN)/python -m dev.release.pyz

# The wheel in an empty environment of every Python that this machine has or can fetch.
pythons: packages
	@$(BIN)/python -m dev.release.pythons

# What this release leaves on a disk, for the tests of later ones: before each release, once.
freeze: setup
	@$(BIN)/python -m dev.release.freeze

# Whether what is here could be released; 15 minutes, of which most are for the Pythons.
release-check: setup
	@$(BIN)/python -m dev.release.check

setup:
	@dev/install

setup-to-run:
	@dev/install run

clean:
	@rm -rf .venv .build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
