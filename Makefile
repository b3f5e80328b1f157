# dynosim: a Go core under a Python package. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GO_PACKAGES := ./cmd/... ./gocore/... ./bindings/... ./benchmarks/...
GO_FOLDERS := cmd gocore bindings benchmarks
MYPY := MYPYPATH=python $(BIN)/mypy --strict --namespace-packages --explicit-package-bases
FUZZ_TIME ?= 60s
SOURCES := setup.py pyproject.toml MANIFEST.in go.mod go.sum \
	gocore/calibration/shipped/profile.json $(shell find $(GO_FOLDERS) -name '*.go' -not -name '*_test.go') \
	$(wildcard gocore/server/tokens/*.py) $(shell find python/dynamo -type f -not -name '*.so' -not -path '*/__pycache__/*')

# What a build needs: the requirements in pyproject.toml, quoted for the shell.
BUILD_TOOLS := $(patsubst %,'%',$(shell sed -n 's/^requires = \[\(.*\)\]$$/\1/p' pyproject.toml | tr -d '",'))
# Stamps: the environment with what a build needs, the package installed in it (all of it, or without live workers), the
# tools of test and lint. The first names its interpreter and these requirements: without it, or with others, the environment
# is made anew.
ENVIRONMENT := $(VENV)/.environment
INSTALLED := $(VENV)/.installed
REPLAY_INSTALLED := $(VENV)/.replay-installed
TOOLS := $(VENV)/.tools
# A second environment, with the AIC SDK: the release whose predictions the tests know. It pins numpy 1.26, which an older
# pyarrow has to fit.
AIC_VENV := .venv-aic
AIC_BIN := $(AIC_VENV)/bin
AIC_ENVIRONMENT := $(AIC_VENV)/.environment
AIC_INSTALLED := $(AIC_VENV)/.installed
AIC_SDK := aiconfigurator==0.10.0 pyarrow\<20
# A third one, with the release of the SDK that docs/accuracy.md is made with (Python 3.11 to 3.13).
ACCURACY_VENV := .venv-accuracy
ACCURACY_BIN := $(ACCURACY_VENV)/bin
ACCURACY_ENVIRONMENT := $(ACCURACY_VENV)/.environment
ACCURACY_INSTALLED := $(ACCURACY_VENV)/.installed
ACCURACY_SDK := aiconfigurator==0.12.0
INTERPRETER := $(shell $(PYTHON) -c 'import sys; print(sys.implementation.name, *sys.version_info[:3])') $(subst ',,$(BUILD_TOOLS))
ifneq ($(shell cat $(ENVIRONMENT) 2>/dev/null),$(INTERPRETER))
$(shell rm -f $(ENVIRONMENT) $(INSTALLED) $(REPLAY_INSTALLED) $(TOOLS))
endif
ifneq ($(shell cat $(AIC_ENVIRONMENT) 2>/dev/null),$(INTERPRETER))
$(shell rm -f $(AIC_ENVIRONMENT) $(AIC_INSTALLED))
endif
ifneq ($(shell cat $(ACCURACY_ENVIRONMENT) 2>/dev/null),$(INTERPRETER))
$(shell rm -f $(ACCURACY_ENVIRONMENT) $(ACCURACY_INSTALLED))
endif

.DEFAULT_GOAL := help
.PHONY: help playground newest-agreement bench-serve soak-serve serve-agreement test-node test-clients test-routers audit docs metrics-page picture release-check sdist test-wheels wheels workflows demo-serve serve-binary image accuracy profiles build demo stress test test-go test-python test-aic lint fmt check bench bench-corners bench-gate bench-live \
	bench-record bench-scale conformance planner-agreement planner-scripts interop interop-kubernetes fuzz golden generate clean truth truth-table

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(INSTALLED) ## Create .venv with the package installed

$(ENVIRONMENT):
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(BUILD_TOOLS)
	@echo '$(INTERPRETER)' > $@

# Without isolation, because the build requirements are in the environment already: seconds instead of half a minute.
# What an earlier build left in build/ goes first, or modules deleted since would be installed again.
$(INSTALLED): $(SOURCES) | $(ENVIRONMENT)
	@rm -rf build/lib* build/bdist* build/temp*
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation .
	@touch $@

# The same without live workers, which are most of what there is to compile.
$(REPLAY_INSTALLED): $(SOURCES) | $(ENVIRONMENT)
	@rm -rf build/lib* build/bdist* build/temp*
	DYNOSIM_PARTS=replay $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation .
	@touch $@

$(TOOLS): tests/requirements.txt | $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	@touch $@

$(AIC_ENVIRONMENT):
	$(PYTHON) -m venv --clear $(AIC_VENV)
	$(AIC_BIN)/pip install --quiet --disable-pip-version-check $(BUILD_TOOLS) 'pytest>=8' 'pytest-xdist>=3.6' $(AIC_SDK)
	@echo '$(INTERPRETER)' > $@

$(AIC_INSTALLED): $(SOURCES) | $(AIC_ENVIRONMENT)
	@rm -rf build/lib* build/bdist* build/temp*
	$(AIC_BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation .
	@touch $@

# Builds what replays need, unless everything has been built before.
demo: $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(REPLAY_INSTALLED)) ## Replay 400 requests of a real conversation trace on two workers
	$(BIN)/python -m dynamo.replay examples/traces/conversation_400.jsonl.gz \
		--trace-block-size 512 --num-workers 2 --report-json build/demo-report.json

demo-serve: build ## Start the OpenAI-compatible server, and show a streamed answer and its metrics
	$(BIN)/python examples/serve/demo.py

# The version as setuptools-scm takes it from the tag.
VERSION = $(shell $(BIN)/python -m setuptools_scm)
serve-binary: $(ENVIRONMENT) ## Build the same server as one binary without Python, build/dynosim-serve
	CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags='-s -w -X main.version=$(VERSION)' -o build/dynosim-serve ./cmd/dynosim-serve

image: $(ENVIRONMENT) ## Build its container image, dynosim-serve, with docker, podman or buildah
	@builder=$$(command -v docker podman buildah | head -n 1); \
	test -n "$$builder" || { echo "make image: install docker, podman or buildah" >&2; exit 2; }; \
	"$$builder" build -f examples/serve/deploy/Dockerfile --build-arg VERSION=$(VERSION) \
		-t dynosim-serve .

test: test-go test-python ## Run all tests, Go and Python

test-go:
	go test -shuffle=on $(GO_PACKAGES)
	go test -race -p 1 -shuffle=on ./bindings/... ./gocore/frontend/... ./gocore/job/... ./gocore/guard/... ./gocore/live/... ./gocore/pace/... ./gocore/serve/... ./gocore/server/...

# Two processes share the test files, each file whole.
test-python: build $(TOOLS)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-aic: $(AIC_INSTALLED) ## Test AIC predictions with the real SDK, in an environment of its own (1 GB)
	$(AIC_BIN)/python -m pytest tests/test_aic.py tests/test_documents.py -k 'aic or tour.md or timing.md or calibrate.md'

# docs/testing.md says more.
stress: build $(TOOLS) ## Run tests up to 20 times on busy cores; goes on where it was (ONLY="plane test_live", AGAIN=1)
	$(BIN)/python tests/stress $(if $(AGAIN),--again) $(if $(JOBS),--jobs $(JOBS)) $(ONLY)

lint: build $(TOOLS) ## Check formatting, types and common mistakes
	@unformatted=$$(gofmt -l $(GO_FOLDERS) tools.go); \
		if [ -n "$$unformatted" ]; then echo "gofmt: run make fmt for" $$unformatted; exit 1; fi
	$(BIN)/python tests/lines.py $(GO_FOLDERS)
	go vet $(GO_PACKAGES)
	go tool staticcheck $(GO_PACKAGES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MYPY) python

fmt: $(TOOLS) ## Format all sources
	gofmt -w $(GO_FOLDERS) tools.go
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test ## All that must be green before a commit

# REFERENCE=PYTHON, an environment with ai-dynamo 1.3.1, adds ratios to it, REFERENCE_NEW=PYTHON those to 1.6.1.
# ONLY=REGEX takes some of the workloads, RUNS=N measures each N times (3), WRITE="README.md docs/performance.md" puts the figures into the tables there.
BENCH_OPTIONS = $(if $(REFERENCE),--reference $(REFERENCE)) $(if $(REFERENCE_NEW),--newest $(REFERENCE_NEW)) $(if $(ONLY),-k '$(ONLY)') $(if $(RUNS),-n $(RUNS))
BENCH_TABLES = $(BENCH_OPTIONS) $(if $(WRITE),--write $(WRITE))
bench: build ## Run the benchmarks and the table of whole replays
	go test -run '^$$' -bench . -benchmem $(GO_PACKAGES)
	$(BIN)/python benchmarks/speed.py $(BENCH_TABLES)

bench-scale: build ## Run the table of how cost grows: requests, workers, blocks, queues, prompts
	$(BIN)/python benchmarks/speed.py --scaling $(if $(RUNS),,-n 2) $(BENCH_TABLES)

bench-corners: build ## Run the table of kinds of runs that were slow once
	$(BIN)/python benchmarks/speed.py --corners $(BENCH_TABLES)

bench-record: build ## Add the ratios to the reference on this machine to benchmarks/history
	$(BIN)/python benchmarks/speed.py --record $(BENCH_OPTIONS)

bench-gate: build ## Fail if a ratio is more than 15 % below the one recorded on such a machine
	$(BIN)/python benchmarks/speed.py --gate $(BENCH_OPTIONS)

newest-agreement: build ## Compare ai-dynamo 1.6 with our rules (REFERENCE_NEW=PYTHON), and put that into docs/agreement.md
	@test -n "$(REFERENCE_NEW)" || { echo "make newest-agreement: give REFERENCE_NEW=PYTHON, an environment with ai-dynamo 1.6" >&2; exit 2; }
	$(BIN)/python benchmarks/newest_agreement.py --newest $(REFERENCE_NEW) --write docs/agreement.md

planner-agreement: build ## Compare the scaling of ai-dynamo's planner in our loop and in its own (PLANNER=PYTHON)
	@test -n "$(PLANNER)" || { echo "make planner-agreement: give PLANNER=PYTHON, an environment with ai-dynamo's planner; see docs/planner.md" >&2; exit 2; }
	$(BIN)/python benchmarks/planner_agreement.py $(PLANNER)

# REFERENCE=PYTHON as above. CASES=N draws so many.
planner-scripts: build ## Compare what random planners are told with ai-dynamo 1.3.1
	@test -n "$(REFERENCE)" || { echo "make planner-scripts: give REFERENCE=PYTHON, an environment with ai-dynamo 1.3.1" >&2; exit 2; }
	$(BIN)/python tests/planner_scripts.py $(REFERENCE) $(if $(CASES),-n $(CASES))

# REFERENCE=PYTHON as above.
bench-serve: build $(TOOLS) ## Put load on the OpenAI-compatible server: requests per core, memory of streams, lateness of tokens
	go build -o build/serve-client ./benchmarks/serve
	$(BIN)/python benchmarks/serve.py --client build/serve-client $(if $(REFERENCE),--reference $(REFERENCE))

test-node: build $(TOOLS) ## Test the OpenAI-compatible server with the Node client of OpenAI, which npm installs
	npm install --silent --no-audit --no-fund --prefix build/node openai@6
	$(BIN)/python -m pytest -s tests/test_serve_node.py  # prints a line for each check

# CLIENTS="NAME ...", only these. VLLM=COMMAND, the vllm of an environment that has it, for vllm bench serve.
test-clients: build ## Test the OpenAI-compatible server with agents' libraries, which pip installs, each in its own environment
	$(BIN)/python tests/clients/run.py $(if $(VLLM),--vllm $(VLLM)) $(CLIENTS)

# ROUTERS=PYTHON as below.
test-routers: build $(TOOLS) ## Put the field's routers, the real programs, before the OpenAI-compatible server (ROUTERS=PYTHON)
	@test -n "$(ROUTERS)" || { echo "make test-routers: give ROUTERS=PYTHON, an environment with the routers; see docs/routers.md" >&2; exit 2; }
	$(BIN)/python tests/clients/field_routers.py $(ROUTERS)

# VLLM=COMMAND, the vllm of an environment that has it.
serve-agreement: build ## Compare what vllm bench serve measures at the server with a replay of the same requests
	$(BIN)/python benchmarks/serve_agreement.py $(if $(VLLM),--vllm $(VLLM))

soak-serve: build $(TOOLS) ## Put load on the OpenAI-compatible server for ten minutes (SECONDS=N); its memory must not grow
	go build -o build/serve-client ./benchmarks/serve
	$(BIN)/python benchmarks/serve.py --client build/serve-client --soak $(or $(SECONDS),600)

bench-live: build ## Put load on 64 live workers in one process
	go build -o build/live-client ./benchmarks/live
	$(BIN)/python benchmarks/live.py --client build/live-client $(if $(REFERENCE),--reference $(REFERENCE))

conformance: build ## Compare with the recorded runs of the reference
	@status=0; for cases in $(filter-out %/planner.jsonl.gz %/routers.jsonl.gz,$(wildcard tests/conformance/*.jsonl.gz)); do \
		echo "$$cases"; $(BIN)/python tests/conformance/check.py "$$cases" || status=1; done; \
		cases=tests/conformance/planner.jsonl.gz; \
		echo "$$cases"; $(BIN)/python tests/conformance/check_planner.py "$$cases" || status=1; exit $$status

# REFERENCE=PYTHON, an environment with ai-dynamo 1.3.1, and REFERENCE_NEW=PYTHON, one with 1.6.1; without them they are made in
# build/reference and, where it can be installed, in build/reference-new. Without the latter the tests of 1.6 are skipped.
interop: build $(TOOLS) $(if $(REFERENCE),,build/reference/.installed) $(if $(REFERENCE_NEW),,build/reference-new/.tried) ## Put live workers behind stock frontends
	new='$(REFERENCE_NEW)'; \
		[ -n "$$new" ] || ! [ -e build/reference-new/.installed ] || new=$(CURDIR)/build/reference-new/bin/python; \
		[ -z "$$new" ] || export REFERENCE_NEW="$$new"; \
		REFERENCE=$(or $(REFERENCE),$(CURDIR)/build/reference/bin/python) $(BIN)/python -m pytest tests/interop

# The API server of Kubernetes and its controllers, from their Go module: some minutes, once. etcd (Debian: etcd-server)
# and openssl have to be on PATH.
KUBERNETES_VERSION := 1.36.3
interop-kubernetes: build $(TOOLS) build/kubernetes/.built-$(KUBERNETES_VERSION) $(if $(REFERENCE),,build/reference/.installed) ## The same in Kubernetes
	REFERENCE=$(or $(REFERENCE),$(CURDIR)/build/reference/bin/python) KUBERNETES=$(CURDIR)/build/kubernetes \
		$(BIN)/python -m pytest tests/interop/test_kubernetes.py tests/interop/test_deployments.py \
		tests/interop/test_exports.py

build/kubernetes/.built-$(KUBERNETES_VERSION): tests/interop/build-kubernetes.sh
	tests/interop/build-kubernetes.sh $(KUBERNETES_VERSION) build/kubernetes
	@touch $@

build/reference/.installed:
	$(PYTHON) -m venv --clear build/reference
	build/reference/bin/pip install --quiet --disable-pip-version-check 'ai-dynamo==1.3.1' 'ai-dynamo-runtime==1.3.1'
	@touch $@

# Its requirement aisimulate is a stub on PyPI, so it is installed without its requirements, and they by name.
build/reference-new/.tried:
	@$(PYTHON) -m venv --clear build/reference-new && \
		build/reference-new/bin/pip install --quiet --disable-pip-version-check --no-deps 'ai-dynamo==1.6.1' 'ai-dynamo-runtime==1.6.1' && \
		build/reference-new/bin/pip install --quiet --disable-pip-version-check 'aiohttp<4,>=3.14.3' certifi 'kubernetes<33,>=32.0.1' \
			'msgspec>=0.19' 'prometheus-client<1,>=0.23.1' 'pyzmq>=26' 'redis<9,>=6.2' tqdm 'transformers>=4.56' \
			'typing-extensions>=4.10' 'zstandard<1,>=0.23' 'pydantic<2.14,>=2.10.6' 'uvloop>=0.21' && \
		touch build/reference-new/.installed || \
		echo "ai-dynamo 1.6.1 cannot be installed here: tests of it are skipped" >&2
	@touch $@

# VLLM=PYTHON and SGLANG=PYTHON, environments with vLLM 0.28 or 0.33 and SGLang 0.5.23 (8 GB, no GPU; installation in the heads of
# tests/truth/vllm_scheduler.py and sglang_scheduler.py); one of them will do. GROUPS=1 draws hybrid KV caches only,
# HOST=1 tiers of host memory, HANDOFF=1 prefill and decode workers (the rules in Python of SGLang's decode side, too), RANKS=1
# data-parallel ranks of either engine.
TRUTH_CASES ?= 2000
TRUTH_VLLM := $(or $(if $(GROUPS)$(HOST),vllm),$(if $(HANDOFF),handoff),$(if $(RANKS),ranks),vllm handoff ranks)
TRUTH_SGLANG := $(or $(if $(GROUPS)$(HOST),sglang),$(if $(HANDOFF),sglang-handoff),$(if $(RANKS),sglang-ranks),\
	sglang sglang-ranks sglang-handoff)
truth: ## Compare with the engines' own schedulers on random workloads, pass by pass
	@test -n "$(VLLM)$(SGLANG)" || { echo "make truth: give VLLM=PYTHON or SGLANG=PYTHON, environments with the engines; see docs/agreement.md" >&2; exit 2; }
	go build -o build/passes ./gocore/truth/passes
	$(if $(VLLM),$(foreach engine,$(TRUTH_VLLM),$(PYTHON) tests/truth/truth.py --engine $(engine) $(if $(GROUPS),--kind groups,$(if $(HOST),--kind host)) \
		--python $(VLLM) --passes build/passes -n $(TRUTH_CASES) &&) true)
	$(if $(SGLANG),$(foreach engine,$(TRUTH_SGLANG),$(PYTHON) tests/truth/truth.py --engine $(engine) $(if $(GROUPS),--kind window,$(if $(HOST),--kind host)) \
		--python $(SGLANG) --passes build/passes -n $(TRUTH_CASES) &&) true)
	$(if $(and $(SGLANG),$(HANDOFF)),$(PYTHON) tests/truth/sglang_handoff_rules.py --python $(SGLANG) --draw $(TRUTH_CASES))

# ROUTERS=PYTHON, an environment with sglang-router, smg and vllm-router (350 MB, no GPU; installation in the head of
# tests/truth/routers.py).
ROUTER_REQUESTS ?= 5000
.PHONY: routers
routers: ## Compare routing modes with the real routers on fresh scripts (ROUTERS=PYTHON)
	@test -n "$(ROUTERS)" || { echo "make routers: give ROUTERS=PYTHON, an environment with the routers; see docs/routers.md" >&2; exit 2; }
	$(PYTHON) tests/truth/draw_routers.py --python $(ROUTERS) -n $(ROUTER_REQUESTS)

truth-table: build ## Write the tables of docs/agreement.md (VLLM=PYTHON SGLANG=PYTHON for those of public traces)
	$(BIN)/python tests/truth/table.py $(if $(VLLM),--vllm $(VLLM)) $(if $(SGLANG),--sglang $(SGLANG)) --write docs/agreement.md

$(ACCURACY_ENVIRONMENT):
	$(PYTHON) -m venv --clear $(ACCURACY_VENV)
	$(ACCURACY_BIN)/pip install --quiet --disable-pip-version-check $(BUILD_TOOLS) $(ACCURACY_SDK) \
		-r python/calibrate-requirements.txt
	@echo '$(INTERPRETER)' > $@

$(ACCURACY_INSTALLED): $(SOURCES) | $(ACCURACY_ENVIRONMENT)
	@rm -rf build/lib* build/bdist* build/temp*
	$(ACCURACY_BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation .
	@touch $@

accuracy: $(ACCURACY_INSTALLED) ## Replay the public measurements and write the tables of docs/accuracy.md (1 GB)
	$(ACCURACY_BIN)/python tests/accuracy/table.py --write docs/accuracy.md --keep build/accuracy
	$(ACCURACY_BIN)/python tests/accuracy/errors.py --write gocore/calibration/shipped/errors.json

# AISIMULATE=PROGRAM of an environment of its own with a pre-release of the wheel, which has its data in it (1.5 GB):
# pip install --pre --only-binary :all: aisimulate
.PHONY: accuracy-peer
accuracy-peer: $(ACCURACY_INSTALLED) ## Compare errors with those of AISimulate, nothing fitted (AISIMULATE=PROGRAM)
	@test -n "$(AISIMULATE)" || { echo "make accuracy-peer: give AISIMULATE=PROGRAM; see docs/accuracy.md" >&2; exit 2; }
	$(ACCURACY_BIN)/python tests/accuracy/peer.py $(AISIMULATE)

profiles: $(ACCURACY_INSTALLED) ## Fit the calibration profile that is part of the program to the public measurements (1 GB)
	$(ACCURACY_BIN)/python -m dynamo.calibrate examples/measured/silicon_sample.csv \
		--resume build/profiles.jsonl -o gocore/calibration/shipped/profile.json --fold-profiles examples/calibration/folds

fuzz: ## Run every fuzz target, each for FUZZ_TIME (60s)
	@set -e; grep -rn --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' $(GO_FOLDERS) | sed 's/:.*func / /' | \
		while read -r file target; do \
			echo "$$(dirname $$file) $$target"; \
			go test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 20x; \
		done

# Only packages with golden files know the flag.
golden: ## Rewrite the golden timelines, then look at the difference
	go test $$(grep -rl --include='*_test.go' 'func Test.*Golden' gocore | xargs -n 1 dirname | sort -u | sed 's|^|./|') \
		-run Golden -rewrite

generate: ## Rewrite the generated files
	go generate $(GO_PACKAGES)

# The documentation site needs an environment of its own, without the package.
DOCS_VENV := .venv-docs
$(DOCS_VENV)/.installed: docs/site/requirements.txt
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --disable-pip-version-check -r docs/site/requirements.txt
	@touch $@

playground: ## Build the page that runs the core in a browser, build/playground, for any file server
	$(PYTHON) docs/site/playground/build.py build/playground $(if $(wildcard $(BIN)/python),--version '$(VERSION)')

docs: $(DOCS_VENV)/.installed playground ## Build the documentation site into build/site; a warning fails it
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

picture: build playground $(TOOLS) ## Make the pictures of pages in README and docs/ anew, in chromium
	$(BIN)/python docs/site/picture.py docs/sweep-page.png docs/recommend-page.png docs/run-page.png docs/faults-page.png docs/playground.png

metrics-page: build ## Write docs/reference/metrics.md from the metrics of running workers
	$(BIN)/python docs/site/metrics.py --write docs/reference/metrics.md

# PYTHONS="PATH ..." names interpreters, TARGETS="x86_64 aarch64" processors.
wheels: $(ENVIRONMENT) ## Build wheels for Linux into dist/, for each Python found and two processors
	$(PYTHON) packaging/wheels.py build $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(TARGETS),--targets $(TARGETS))

# EXTRAS="data plots ray aic" tries these extras, too.
test-wheels: ## Test the wheels in dist/ in clean environments without Go
	$(PYTHON) packaging/wheels.py test $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(EXTRAS),--extras $(EXTRAS))

sdist: $(ENVIRONMENT) ## Build the source distribution into dist/
	$(BIN)/python -c "from setuptools.build_meta import build_sdist; print(build_sdist('dist'))"

release-check: $(ENVIRONMENT) ## Say whether TAG, the version, CHANGELOG.md and CITATION.cff agree
	$(BIN)/python packaging/release.py '$(TAG)' '$(VERSION)'

audit: $(TOOLS) ## Look for known vulnerabilities in Go and Python dependencies
	go run golang.org/x/vuln/cmd/govulncheck@latest $(GO_PACKAGES)
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

workflows: ## Check the workflows of .github
	go run github.com/rhysd/actionlint/cmd/actionlint@latest

clean: ## Remove what was built
	rm -rf $(VENV) $(AIC_VENV) $(ACCURACY_VENV) $(DOCS_VENV) _gopy build dist python/*.egg-info .pytest_cache .mypy_cache .ruff_cache
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} +
