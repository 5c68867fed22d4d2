# Needs Go and make. `make generate` and `make lint` also need clang-19, llvm-19 and clang-format-19.

GO     ?= go
BINARY ?= bin/tricolor

VERSION ?= $(shell scripts/version)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)

GOLANGCI_LINT_VERSION := v2.12.2
GOLANGCI_LINT         := bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

NFPM_VERSION := v2.45.0
NFPM         := bin/nfpm-$(NFPM_VERSION)

CLANG_FORMAT ?= clang-format-19
C_FILES       = $(wildcard bpf/*.c bpf/include/*.h internal/bench/dpdk/*.c internal/bench/peer/*.c)

FUZZTIME ?= 60s

.DEFAULT_GOAL := help
.PHONY: help build generate test lint lint-go lint-c fmt fuzz soak demo bench man deb test-deb test-vm clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## build the static binary bin/tricolor
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o $(BINARY) ./cmd/tricolor

generate: ## build the kernel program, bpf/policer_bpf*.o and .go (clang-19, llvm-19)
	$(GO) generate ./bpf

# -p 1: kernel tests of two packages would meet under /sys/fs/bpf/tricolor.
# -count=1: an answer depends on the kernel and on who asks, which the test cache does not see.
test: ## run all tests; as root those of the kernel too
	$(GO) test -p 1 -count=1 -timeout 15m ./...

lint: lint-go lint-c ## check Go and C for faults and format

lint-go: $(GOLANGCI_LINT)
	$(GO) vet -tags man ./...
	$(GOLANGCI_LINT) run

lint-c:
	$(if $(C_FILES),$(CLANG_FORMAT) --dry-run --Werror $(C_FILES))

fmt: ## format Go and C
	$(GO) fmt ./...
	$(if $(C_FILES),$(CLANG_FORMAT) -i $(C_FILES))

fuzz: ## fuzz the readers of captures and packets for FUZZTIME (60s), the rest for a quarter; as root the kernel too
	scripts/fuzz $(FUZZTIME)

soak: ## a thousand rounds of attach, apply and detach, of which nothing may be left (root, five minutes)
	TRICOLOR_LEAK_ROUNDS=1000 TRICOLOR_REQUIRE_KERNEL=1 $(GO) test -count=1 -timeout 30m -run '^TestNoLeaks$$' -v ./loader

demo: ## police real traffic between two network namespaces and check the outcome (root)
	$(GO) run ./cmd/tricolor demo

bench: ## measure, and print one table; as root the kernel program too
	$(GO) run ./internal/bench

man: ## write the manual pages, dist/man
	$(GO) run -tags man -ldflags '-X main.version=$(VERSION)' ./cmd/tricolor man dist/man

deb: $(NFPM) ## build the Debian package, dist/tricolor_VERSION_ARCH.deb
	VERSION='$(VERSION)' NFPM=$(NFPM) scripts/deb

test-deb: $(NFPM) ## build, install, use and remove the package in a clean Debian (root, mmdebstrap)
	VERSION='$(VERSION)' NFPM=$(NFPM) scripts/test-deb

# The tests of the machines go last: they boot a kernel that the machines have fetched.
test-vm: ## run the tests on Linux 6.1 and 6.12, in virtual machines (QEMU; no root, no KVM)
	$(GO) run ./vagrant/vm
	$(GO) test -count=1 ./vagrant/...

clean: ## remove bin and dist
	rm -rf bin dist

# Built from source, once; bin is not committed.
$(GOLANGCI_LINT):
	GOBIN='$(CURDIR)/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv bin/golangci-lint $@

$(NFPM):
	GOBIN='$(CURDIR)/bin' $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	mv bin/nfpm $@
