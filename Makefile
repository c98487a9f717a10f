# Everything that cleat needs is built from pinned Go modules into a cache outside the tree.
# `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# All targets build in the same way as releases do, so that what one has compiled serves the others.
export GOFLAGS     := -trimpath
export CGO_ENABLED := 0

# Modules of their own, because they need what nothing else of the project does.
MODULES := server/test/localcluster server/test/helm server/test/promql server/test/browser examples/manifest-writers plugins/kopia

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cleat
TOOLS := $(CACHE)/tools
BIN   := bin

BUF                := github.com/bufbuild/buf/cmd/buf@v1.65.0
PROTOC_GEN_GO      := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
CONTROLLER_GEN     := sigs.k8s.io/controller-tools/cmd/controller-gen@v0.21.0
APIDIFF            := golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e
GOLANGCI_LINT      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.0
GOVULNCHECK        := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# $(call tool,NAME,MODULE) is the path of an installed tool; $(call install,...) installs it once per version.
tool    = $(TOOLS)/$(1)-$(lastword $(subst @, ,$(2)))/$(1)
install = test -x $(call tool,$(1),$(2)) || { echo "building $(1) ($(lastword $(subst @, ,$(2)))), once"; \
	GOBIN=$(dir $(call tool,$(1),$(2))) GOFLAGS= go install $(2); }

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The scripts and the style sheet of the console, which the binary embeds. Without npm the console has plainer pages.
CONSOLE := server/internal/console
.PHONY: console-assets
console-assets: ## fetch the scripts and the style sheet of the console, where there is npm
	@if ! command -v npm >/dev/null; then echo "npm is not installed, so the pages of the console will be plain"; exit 0; fi; \
	cd $(CONSOLE)/npm && { test node_modules/.package-lock.json -nt package-lock.json || npm ci --ignore-scripts --loglevel=error >/dev/null; } && \
	mkdir -p ../assets/npm && cp -p node_modules/@picocss/pico/css/pico.min.css node_modules/htmx.org/dist/htmx.min.js \
		node_modules/htmx-ext-sse/dist/sse.min.js node_modules/idiomorph/dist/idiomorph-ext.min.js ../assets/npm

.PHONY: build
build: console-assets ## build the cleat binary, the data movers cleat-restic and cleat-kopia, and the example plugin into bin/
	@echo "building cleat, its data movers and the example plugin"
	@mkdir -p $(BIN)/plugins
	@go build -o $(BIN)/cleat ./server/cmd/cleat
	@go build -o $(BIN)/plugins/first-plugin ./examples/first-plugin
	@go build -o $(BIN)/cleat-restic ./plugins/restic/cmd/cleat-restic
	@go -C plugins/kopia build -o $(CURDIR)/$(BIN)/cleat-kopia ./cmd/cleat-kopia

VERSION   ?= dev
PLATFORMS ?= linux/amd64,linux/arm64
PRODUCTS  ?=
# A time, as 20261101T000000Z, whose Debian packages are in the image of the server; the newest ones without it.
DEBIAN_SNAPSHOT ?=
REPOSITORY      ?= ghcr.io/cleat-dev
# The private key that signs the checksums of a release and the images that are pushed; without it, nothing is signed.
KEY ?=
.PHONY: image
image: console-assets ## build reproducible images of PRODUCTS (all: the server and the plugins) for PLATFORMS into bin/image: OCI layouts with SBOMs, and tarballs to load (VERSION=v1.2.3)
	@rm -rf $(BIN)/image
	@go run ./server/cmd/cleat-release -version "$(VERSION)" -platforms "$(PLATFORMS)" -products "$(PRODUCTS)" \
		-debian-snapshot "$(DEBIAN_SNAPSHOT)" -repository "$(REPOSITORY)" -image $(BIN)/image

.PHONY: push
push: ## push the images in bin/image to REPOSITORY, such as registry.example.io/backup, and sign them (KEY=cosign.key)
	@go run ./server/cmd/cleat-release -push -products "$(PRODUCTS)" -repository "$(REPOSITORY)" -image $(BIN)/image -key "$(KEY)"

.PHONY: image-test
image-test: ## test the images of plugins with that of cleat-restic, for which restic is built (the first time takes some minutes)
	@CLEAT_TEST_RESTIC_IMAGE=1 $(TEST) -run '^TestPluginImages$$' -count=1 ./server/internal/setup/release

.PHONY: release
release: console-assets ## build archives, SBOMs and signed checksums for PLATFORMS into bin/release (VERSION=v1.2.3 KEY=cosign.key)
	@rm -rf $(BIN)/release
	@go run ./server/cmd/cleat-release -version "$(VERSION)" -platforms "$(PLATFORMS)" -products "$(PRODUCTS)" -archives $(BIN)/release -key "$(KEY)"

# Programs that are no Go modules, restic among them, are Debian packages that are unpacked, not installed.
.PHONY: cluster
cluster: ## build the control plane and the node of tests and demo (the first time takes some ten minutes)
	@mkdir -p $(dir $(COMMON))
	@cd server/test/localcluster && go run . build

.PHONY: browser
browser: ## unpack the browser of tests, and fetch what checks pages in it, where there is npm
	@if command -v npm >/dev/null; then cd server/test/browser && \
		{ test node_modules/.package-lock.json -nt package-lock.json || npm ci --ignore-scripts --loglevel=error >/dev/null; }; fi
	@cd server/test/browser && go run . build || echo "there is no browser here; tests that need it are skipped"

.PHONY: screens
screens: cluster console-assets browser ## accept what the pages of the console look like: their layouts and pictures, and the picture of the README
	@out=$$(go test -vet=off -ldflags=-s -count=1 -run '^TestAcceptConsole_(Pages|Phone|SignIn)$$' ./server/test/console -update) || \
		{ printf '%s\n' "$$out"; exit 1; }

.PHONY: velero
velero: ## build the real Velero and its plugin for S3, beside which some tests run (the first time takes some minutes)
	@go run ./server/test/velero/build

.PHONY: demo
demo: cluster build ## back up, delete, restore and compare some 3,000 objects, then show a queue and data movers, on a cluster of its own
	@mkdir -p $(BIN)/movers
	@go build -o $(BIN)/movers ./examples/data-mover ./examples/small-mover
	@go run ./examples/demo -cleat $(BIN)/cleat -plugins $(BIN)/plugins -movers $(BIN)/movers

UPLOADER ?= kopia
.PHONY: demo-volumes
demo-volumes: cluster build ## back up, delete, restore and compare the volumes of pods that run on a node of their own, where one can run (UPLOADER=restic)
	@rm -rf $(BIN)/volume-movers && mkdir -p $(BIN)/volume-movers && cp $(BIN)/cleat-$(UPLOADER) $(BIN)/volume-movers
	@go run ./examples/demo -volumes -uploader $(UPLOADER) -cleat $(BIN)/cleat -movers $(BIN)/volume-movers

.PHONY: node-plugin
node-plugin: ## build and test the plugin in JavaScript, where there is npm
	@if command -v npm >/dev/null; then cd examples/node-plugin && \
		{ test node_modules/.package-lock.json -nt package-lock.json || npm ci --ignore-scripts --loglevel=error >/dev/null; } && \
		npm run --silent build && npm test --silent -- --test-reporter=dot; else echo "npm is not installed, leaving out examples/node-plugin"; fi

# Many tests wait for a process or a server most of the time, so more of them run at once than there are cores. Many more would
# not end sooner, but fail, as what they wait for takes longer. The linter vets the code. Nobody debugs these binaries, and without
# a symbol table linking them takes two thirds of the time.
TEST    := go test -vet=off -ldflags=-s -parallel 5 -timeout 90m
# Packages whose tests need nothing but namespaces and buckets of their own share a control plane, and those that run servers
# another one. These files describe them meanwhile.
COMMON  := $(CACHE)/common/$(subst /,-,$(CURDIR)).json
SERVERS := $(CACHE)/common/$(subst /,-,$(CURDIR))-servers.json
share    = go -C $(CURDIR)/server/test/localcluster run . run -record $(1) -- env -C $(CURDIR) $(2)=$(1)
SHARING := $(call share,$(COMMON),CLEAT_TEST_CLUSTER)
SERVING := $(call share,$(SERVERS),CLEAT_TEST_SERVERS)
# The packages whose tests run servers; server/test/site is their fixture.
AREAS   := $(addprefix ./server/test/,rehearsals faults operations volumes install queue backups plugins restores security manifests trust console)
# Tests on a node keep two cores busy, so they run alone. Of the others, those that take longest begin first, so that none of them
# runs alone at the end.
NODE    := ./server/test/nodeagent
LONGEST := $(AREAS) ./server/test/roundtrip ./examples/data-mover ./examples/small-mover ./server/internal/control/backupqueue ./framework/conformance

# One round trip per kind of plugin: object stores, actions and data movers of authors, actions that start nothing, snapshots,
# policies of the queue, writers of manifests, policies of loads.
TRIPS      := ^TestAcceptBackup_RoundTrip$$|^TestAcceptPlugins_ItemBlockAndDeleteActions$$
TRIPS      := $(TRIPS)|^TestAcceptVolumes_Snapshots$$/^there_and_back$$|^TestAcceptQueue_PolicyPlugins$$/^each_decides_in_its_way$$
TRIPS      := $(TRIPS)|^TestAcceptManifest_Examples$$|^TestAcceptVolumes_Soothing$$/^External$$
TRIP_ROOMS := $(addprefix ./server/test/,roundtrip volumes queue plugins manifests nodeagent)
# Packages that are left out of it: they run all rules of conformance against many plugins, build a module of an author, restore with restic, or run servers.
NO_UNITS   := /framework/conformance$$|/examples/|/plugins$$|/plugins/restic$$|/server/internal/setup/plugininit$$|/server/test/
.PHONY: check
check: cluster ## run what a change needs in some minutes: unit tests, and one round trip per kind of plugin
	@echo "building and running unit tests and round trips"
	@$(TEST) -short ./server/test/documents $$(go list ./... | grep -vE '$(NO_UNITS)')
	@$(SERVING) $(TEST) -run '$(TRIPS)' $(TRIP_ROOMS)

# Packages whose own code starts goroutines or locks. Those that are only called by several goroutines are so in the tests of these.
# Left out are packages whose tests run programs that are built without the race detector, pure functions, and those whose tests
# take minutes under it and of which the packages that use them are run under it: archives, files of manifests, S3.
CONCURRENT := '^[[:space:]]*go [a-z]|\.Go\(|"sync[/"]|/sync/|make\(chan '
APART      := /server/test/(roundtrip|world|documents)$$|/server/internal/setup/plugininit$$|/framework/conformance$$|/plugins$$|/plugins/restic$$|/plugins/s3store$$|/bucket/archive$$|/status/contents$$|/(examples|versioning|framework/api)/
concurrent  = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{range .GoFiles}}{{$$.Dir}}/{{.}} {{end}}{{end}}' ./... | \
	while read -r package files; do ! grep -qE $(CONCURRENT) $$files </dev/null || echo "$$package"; done | grep -vE '$(APART)'
# Whose tests are smaller under the race detector.
SMALLER    := /control/backupqueue$$

# With RACE=apart, tests that "make race" runs as well are left to it.
RACE ?=
.PHONY: test
test: export CLEAT_MOVER_TEST_SIZE := 128Mi
test: cluster node-plugin console-assets browser ## run all tests, with a real API server, a real S3 server and real plugin processes
	@echo "building and running the tests"
	@apart=$$(test "$(RACE)" != apart || $(concurrent) | grep -vE '$(SMALLER)'); failed=; \
	$(TEST) $(NODE) || failed=1; \
	$(SHARING) $(SERVING) $(TEST) $(LONGEST) $$(go list ./... | grep -vxF "$${apart:-none}"$$'\n'"$$(go list $(NODE))") || failed=1; \
	for module in $(MODULES); do (cd $$module && $(TEST) ./...) || failed=1; done; test -z "$$failed"

DETECTOR ?= -race
.PHONY: race
race: cluster console-assets ## run the tests of what runs concurrently under the race detector, which needs a C compiler
	@command -v "$$(CGO_ENABLED=1 go env CC)" >/dev/null || { echo "the race detector needs a C compiler, such as gcc"; exit 1; }
	@echo "building and running the tests$(if $(DETECTOR), with the race detector)"
	@$(SHARING) $(if $(DETECTOR),CGO_ENABLED=1) $(TEST) $(DETECTOR) -exec 'env CGO_ENABLED=0' $$($(concurrent))

.PHONY: volumes
volumes: cluster ## back up, delete and restore 2 GB of volumes with the data mover of a vendor, killing it on the way
	@$(TEST) -run '^TestAcceptVolumes_MoverOfVendor$$' -count=1 ./server/test/volumes

ONLY ?=
.PHONY: bench
bench: cluster build ## measure (ONLY=NAME for one), lines "BENCH <name> <value>"
	@go run ./server/bench -cleat $(BIN)/cleat -only "$(ONLY)"

.PHONY: compare
compare: cluster velero build ## have cleat and the real Velero do the same work, and print seconds, CPU and memory as a table
	@go run ./server/bench -cleat $(BIN)/cleat -compare -only "$(ONLY)"

OBJECTS ?= 1000000
.PHONY: scale
scale: cluster build ## back up, list and restore a tenth of OBJECTS (1000000) and all of them, and print a table; takes hours
	@go run ./server/bench -cleat $(BIN)/cleat -scale $(OBJECTS)

FOR  ?= 10m
SEED ?= $(shell date +%s)
.PHONY: chaos
chaos: cluster build ## kill, stop and cut off servers under load for FOR (10m), in an order that SEED decides, and check that nothing is lost
	@go build -o $(BIN)/chaos-plugins/witness ./server/test/site/testdata/witness
	@go build -o $(BIN)/chaos-plugins/worker ./server/test/site/testdata/worker
	@go run ./server/test/chaos -cleat $(BIN)/cleat -plugins $(BIN)/chaos-plugins -for $(FOR) -seed $(SEED)

# The linter remembers paths, also of other checkouts and of those that are gone: each has a memory of its own.
lint: export GOLANGCI_LINT_CACHE = $(CACHE)/lint/$(subst /,-,$(CURDIR))
.PHONY: lint
lint: ## golangci-lint, with the import rules of the house
	@$(call install,golangci-lint,$(GOLANGCI_LINT))
	@$(call tool,golangci-lint,$(GOLANGCI_LINT)) run ./...
	@for module in $(MODULES); do (cd $$module && $(call tool,golangci-lint,$(GOLANGCI_LINT)) run --config $(CURDIR)/.golangci.yml ./...) || exit 1; done

# The API of framework as it was at the last release. Packages for servers are not part of the promise.
API     := framework/api.export
FREE_API := \./framework/(hostapi|hostenv)\b
apidiff = $(call tool,apidiff,$(APIDIFF)) -m
.PHONY: api
api: ## fail if the exported API of framework has changed incompatibly
	@$(call install,apidiff,$(APIDIFF))
	@changes=$$($(apidiff) -incompatible $(API) github.com/cleat-dev/cleat/framework 2>/dev/null | { grep -vE '$(FREE_API)' || true; }); \
	test -z "$$changes" || { printf '%s\n' "$$changes"; echo "the exported API of framework has changed incompatibly (framework/COMPATIBILITY.md):" \
		"keep what was exported, or, before the first release only, accept it with: make api-export"; exit 1; }

.PHONY: api-export
api-export: ## write the exported API of framework as the new baseline of make api
	@$(call install,apidiff,$(APIDIFF))
	@$(apidiff) -w $(API) github.com/cleat-dev/cleat/framework

.PHONY: generate
generate: ## protos, deep copies, CRDs and reference pages from their sources
	@$(call install,buf,$(BUF))
	@$(call install,protoc-gen-go,$(PROTOC_GEN_GO))
	@$(call install,protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC))
	@$(call install,controller-gen,$(CONTROLLER_GEN))
	@export PATH="$(dir $(call tool,protoc-gen-go,$(PROTOC_GEN_GO))):$(dir $(call tool,protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC))):$$PATH"; \
	for module in proto versioning/testkind/proto; do (cd $$module && $(call tool,buf,$(BUF)) lint && \
		$(call tool,buf,$(BUF)) generate --template $(CURDIR)/proto/buf.gen.yaml); done
	@$(call tool,controller-gen,$(CONTROLLER_GEN)) object crd paths=./framework/api/... output:crd:artifacts:config=framework/api/velero/crds
	@$(call tool,controller-gen,$(CONTROLLER_GEN)) object crd paths=./examples/data-mover/api/... output:crd:artifacts:config=examples/data-mover/api/v1
	@$(MAKE) --no-print-directory reference

# Tests write the pages, because only tests see all programs. Without -update, they compare.
.PHONY: reference
reference: ## pages of flags, config keys, annotations, metrics and events, from the code (server/docs/reference)
	@go test -vet=off -ldflags=-s -count=1 -run '^TestDocuments(Flags|Config|AnnotationsAndLabels|Metrics|Events)$$' ./server/test/documents -update >/dev/null

.PHONY: fuzz
FUZZTIME ?= 20s
TARGET   ?=
fuzz: ## run every fuzz target for FUZZTIME (20s), or one (TARGET=server/internal/bucket/store.FuzzFiles); server/test/documents/testdata/parsers.txt lists them
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do folder=$$(dirname "$${file#./}"); \
		grep -oE '^func Fuzz[A-Za-z0-9_]*' "$$file" | sed 's/func //' | while read -r target; do \
			case "$(TARGET)" in ""|"$$folder.$$target") ;; *) continue ;; esac; \
			echo "$$folder.$$target"; (cd "$$folder" && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) . </dev/null); \
		done; done

# By hand: it needs https://vuln.go.dev, or a copy of that database (GOVULNDB=file:///path).
GOVULNDB ?= https://vuln.go.dev
.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what the code calls (GOVULNDB=URL of the database)
	@$(call install,govulncheck,$(GOVULNCHECK))
	@$(call tool,govulncheck,$(GOVULNCHECK)) -db "$(GOVULNDB)" ./...
	@for module in $(MODULES); do (cd $$module && $(call tool,govulncheck,$(GOVULNCHECK)) -db "$(GOVULNDB)" ./...) || exit 1; done

.PHONY: clean
clean: ## remove what was built in the tree; the cache stays
	@rm -rf $(BIN)
