# Targets for people and for CI. Long logic lives in Go (bed/, tools/, e2e/), not here.

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

# The bed is a real one-node Kubernetes (docs/bed.md). With KUBECONFIG set, that cluster is used and no bed is started.
BED        := go run -C bed .
CLUSTER    := $(if $(KUBECONFIG),,bed-up)
given      := $(if $(findstring :,$(KUBECONFIG)),$(KUBECONFIG),$(abspath $(KUBECONFIG)))
kubeconfig  = KUBECONFIG="$(or $(given),$$($(BED) kubeconfig))"; export KUBECONFIG

# Pinned programs, built once into Go's build cache.
tool        = nice -n 5 go tool -modfile=$(CURDIR)/tools/go.mod
MODULES    := . bed tools

# Everything is compiled as the product is, static and the same wherever the source lies: what the linter, the tests
# and the product share is compiled once, also in another clone.
export CGO_ENABLED := 0
# The linter vets, so that tests need not.
export GOFLAGS     := $(strip $(filter-out -trimpath -vet=off,$(GOFLAGS)) -trimpath -vet=off)
ldflags    := -s -w
compile     = go build -buildvcs=auto -ldflags "$(ldflags)"
# The demo hides what Go says while it downloads; errors stay.
quiet      =
# What the image is for, as Go names it; all are linux.
ARCHITECTURES ?= amd64 arm64
# What make image calls the image by default: what the chart runs by default.
chart_version = $(shell awk '/^appVersion:/ {print $$2}' charts/keyturn/Chart.yaml)

# The version that the chart runs by default.
newest_kafka = $(shell awk '/^- version:/ {print $$3; exit}' charts/keyturn/values.yaml)

# RUN selects end-to-end scenarios, for example RUN='^cluster/'.
RUN        ?=
SHORT_RUN  ?= ^($(if $(KUBECONFIG),,release/quickstart|)cluster/created-|trust/cluster-ca-key-replaced-without-restart|applications/user-connects|topics/created|certmanager/created|etcd/created)
E2E_TIMEOUT ?= 90m

# Packages with goroutines of their own, which the race detector watches. It needs a C compiler.
RACE_PACKAGES := ./internal/agent/... ./internal/etcd/agent/... ./internal/kafka/agent/... ./internal/kafka/admin/... ./internal/mtls ./internal/probe/... ./internal/reports
# There is memory for API servers and their tests to collect garbage less often.
garbage       := 400
# Packages whose tests start a real API server.
API_PACKAGES  := ./api ./charts/apitest ./internal/access/apitest ./internal/cli/apitest ./internal/etcd/apitest ./internal/issuer/certmanager/apitest ./internal/kafka/apitest ./internal/topic/apitest ./internal/user/apitest
# Where they find it, and cert-manager.
api_assets     = KUBEBUILDER_ASSETS="$$($(BED) assets)"; KEYTURN_CERT_MANAGER="$$($(BED) cert-manager)"; export KUBEBUILDER_ASSETS KEYTURN_CERT_MANAGER

##@ For people

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: quiet = 2> >(grep --line-buffered -v '^go: downloading ' >&2)
demo: build $(CLUSTER) ## start a Kafka cluster, restart it and replace its CA keys under load, start an etcd cluster; uses $KUBECONFIG if set, else the bed
	@$(kubeconfig); go run ./e2e/demo $(quiet)

build: ## build bin/keyturn (static), bin/keyturn-agent for pods, and the kubectl plugin
	@rm -f bin/kubectl-keyturn # Go writes through a link
	$(compile) -o bin/ ./cmd/... $(quiet)
	@ln -sf kubectl-keyturn bin/kubectl_complete-keyturn

image: ldflags += $(if $(VERSION),-X github.com/keyturn/keyturn/internal/cli/build.version=$(VERSION:v%=%))
image: ## write the operator's image as an OCI archive, out/keyturn-image.tar, for a registry, kind and k3d [IMAGE=repository VERSION=v0.1.0]
	@for arch in $(ARCHITECTURES); do GOOS=linux GOARCH=$$arch $(compile) -o out/image/$$arch/ ./cmd/keyturn ./cmd/keyturn-agent; done
	@$(BED) image archive $(foreach arch,$(ARCHITECTURES),--programs $(arch)=$(CURDIR)/out/image/$(arch)) --image '$(or $(IMAGE),keyturn)' --tag '$(or $(VERSION:v%=%),$(chart_version))' --to $(CURDIR)/out/keyturn-image.tar

test: ## prove the project: lint, generated files, unit, API-level, single servers, short end-to-end run, short benchmarks (what CI runs)
	@go run -C tools ./stages -C .. needs programs lint generate-check build unit race api-test etcd-server-test kafka-server-test $(CLUSTER) e2e-short bench-short

release: ## write what a version consists of to out/release, VERSION=v0.1.0 IMAGE=registry.example.org/keyturn/keyturn; pushes nothing
	@go run -C tools ./release -C .. -version '$(VERSION)' -image '$(IMAGE)' -to $(CURDIR)/out/release

##@ Parts of test

needs: ## install the programs that tests use, or name what is missing
	@go run -C tools ./need gcc openssl jq keytool=openjdk-17-jre-headless

# Each compiles alone for minutes, and each waits for the other's downloads now and then.
programs: ## build the linter and the bed, side by side
	@$(MAKE) -j2 linter bed-build

linter: ## build golangci-lint
	@$(tool) golangci-lint version

bed-build: ## build what the bed consists of; with KUBECONFIG only what tests against an API server need
	@$(if $(KUBECONFIG),$(BED) assets && $(BED) cert-manager,$(BED) build)

lint: ## golangci-lint over all modules
	@for module in $(MODULES); do echo "lint $$module"; (cd $$module && $(tool) golangci-lint run -c $(CURDIR)/.golangci.yml ./...); done

unit: ## tests that need nothing but Go
	@env -u KUBEBUILDER_ASSETS -u KEYTURN_CERT_MANAGER -u KUBECONFIG go test -timeout 20m $$(go list ./... | grep -v -e /apitest$$ -e /api$$ -e /e2e/scenarios$$)
	@go test -C bed ./...
	@go test -C tools -count=1 ./... # Go takes results of before although files outside of a module have changed

race: needs ## tests of concurrent packages under the race detector
	@nice -n 5 env CGO_ENABLED=1 go test -race -timeout 20m $(RACE_PACKAGES)

# The limits of the tests are four times and more what they take on two quiet processors: nothing fails because a machine is busy.
api-test: ## tests against a real API server, etcd and cert-manager; of crashes and losses about one in ten
	@$(api_assets); GOGC=$(garbage) go test -timeout 60m $(API_PACKAGES)

etcd-server-test: needs ## the agent, the operator and the pages of etcd beside real members
	@KEYTURN_ETCD_HOMES="$$($(BED) etcd)"; KUBEBUILDER_ASSETS="$$($(BED) assets)"; export KEYTURN_ETCD_HOMES KUBEBUILDER_ASSETS; go test -count=1 -timeout 20m ./internal/etcd/admin/... ./internal/etcd/agent/... ./internal/etcd/model ./internal/etcd/servertest

kafka-server-test: KAFKA = $(newest_kafka)
kafka-server-test: needs ## the agent beside single servers of the newest version of Kafka, or of those of KAFKA='4.0.0 4.0.2'
	@KEYTURN_KAFKA_HOMES="$$($(BED) kafka $(KAFKA))"; export KEYTURN_KAFKA_HOMES; go test -count=1 -timeout 60m ./internal/kafka/agent/...

server-test: etcd-server-test ## both, of Kafka beside servers of the first and last patch of each release
	@$(MAKE) kafka-server-test KAFKA=

e2e-short: ## the end-to-end scenarios that make test runs
	@$(kubeconfig); go test -count=1 -timeout $(E2E_TIMEOUT) -v ./e2e/scenarios -scenario '$(SHORT_RUN)' -timings note

bench-short: build ## each measurement of bench with little to measure, and without bounds on time
	@$(kubeconfig); $(api_assets); go run ./e2e/bench -short

##@ On a cluster

e2e: needs build $(CLUSTER) $(if $(RUN),,server-test walks) ## end-to-end scenarios [RUN=regexp]; without RUN all that follows, too
	@$(kubeconfig); go test -count=1 -timeout $(E2E_TIMEOUT) -v ./e2e/scenarios -scenario '$(RUN)'

walk = $(api_assets); go test -count=1 -v -timeout 60m
# Half of the time a test waits for an API server.
api_walk = $(walk) -parallel $$((2 * $$(nproc)))

walks: walk-trust walk-sequences walk-nodes walk-members walk-rotations walk-situations walk-stale-leaders walk-writes walk-losses walk-etcd walk-etcd-rotations ## every state of larger worlds, a crash after every write of all changes, and every loss of Secrets; each part takes an hour at most

walk-trust: ## part of walks: every state of the law of trust [RUN=regexp of worlds]
	@$(walk) ./internal/trust -run '$(if $(RUN),/$(RUN))' -wide

walk-sequences: ## part of walks: thousands of random sequences of what is asked of a CA [RUN=number of one]
	@$(walk) ./internal/domain -run 'Whatever$(if $(RUN),/^$(RUN)$$)' -wide

walk-nodes: ## part of walks: every state of the restarts of Kafka's nodes
	@$(walk) ./internal/kafka/rollout -wide

walk-members: ## part of walks: every state of etcd's members [RUN=regexp of worlds]
	@$(walk) ./internal/etcd/membership -run '$(if $(RUN),/$(RUN))' -wide

walk-rotations: ## part of walks: a crash after every write of Kafka's rotations [RUN=regexp of rotations]
	@$(api_walk) ./internal/kafka/apitest -run 'RotationGoesOn$(if $(RUN),/$(RUN))' -wide

walk-situations: ## part of walks: a crash after every write when a Kafka CA is lost, is the user's, or ends [RUN=regexp of situations]
	@$(api_walk) ./internal/kafka/apitest -run 'SituationEndsTheSame$(if $(RUN),/$(RUN))' -wide

walk-stale-leaders: ## part of walks: Kafka's rotations by two operators that both lead [RUN=regexp of rotations]
	@$(api_walk) ./internal/kafka/apitest -run 'StaleLeader$(if $(RUN),/$(RUN))' -wide

walk-writes: ## part of walks: a crash after every write of Kafka's other changes [RUN=regexp of changes]
	@$(api_walk) ./internal/kafka/apitest -run 'WhateverWrite$(if $(RUN),/$(RUN))' -wide

walk-losses: ## part of walks: every loss of Secrets of Kafka's CAs [RUN=regexp of losses]
	@$(api_walk) ./internal/kafka/apitest -run 'SecretsAreLost$(if $(RUN),/$(RUN))' -wide

walk-etcd: ## part of walks: a crash after every write of etcd's other changes [RUN=regexp of changes]
	@$(api_walk) ./internal/etcd/apitest -run 'Crash$(if $(RUN),/$(RUN))' -skip InARotation -wide

walk-etcd-rotations: ## part of walks: a crash after every write of etcd's rotations [RUN=regexp of rotations]
	@$(api_walk) ./internal/etcd/apitest -run 'CrashesInARotation$(if $(RUN),/$(RUN))' -wide

bench: build $(CLUSTER) ## measure what the project promises; reports in out/bench
	@$(kubeconfig); $(api_assets); go run ./e2e/bench

bed-up: ## build what is missing and start the bed
	@$(BED) up $(quiet)

bed-down: ## stop the bed and leave nothing of it behind
	@$(BED) down

bed-status: ## say whether the bed runs
	@$(BED) status

##@ Source

generate: ## write the generated files again
	@go generate ./...

generate-check: ## fail if a generated file is not current
	@go run -C tools ./generated -C .. make generate

fmt: ## format all Go files
	@for module in $(MODULES); do (cd $$module && $(tool) golangci-lint fmt -c $(CURDIR)/.golangci.yml); done

clean: ## remove what was built here (caches and the bed stay)
	@rm -rf bin out

.PHONY: help demo build image release test needs programs linter bed-build lint unit race api-test e2e-short e2e etcd-server-test kafka-server-test server-test bench-short walks walk-trust walk-sequences walk-nodes walk-members walk-rotations walk-situations walk-stale-leaders walk-writes walk-losses walk-etcd walk-etcd-rotations bench bed-up bed-down bed-status generate generate-check fmt clean
