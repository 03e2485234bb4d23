# Every recipe does its own set-up, and says what it is doing. CI runs these and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

say = @printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help
help: ## Lists the recipes
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

.PHONY: demo
demo: programs ## Shows the main job, end to end: a cluster of namespaces, no cloud, no root. KEEP=1 leaves it running
	$(call say,The demo: its own small network of namespaces; nothing of this machine is touched)
	@KEEP=$(KEEP) target/debug/demo

.PHONY: demo-baremetal
demo-baremetal: programs vm ## Shows addresses of PhoenixNAP, simulated: a block is bought, its VLAN comes, a server crashes, the block goes back
	$(call say,Release build of the daemon: in emulation each instruction counts)
	@cargo build --locked --release --package mooring-node
	$(call say,The demo: a simulated cloud that costs nothing, and a small VM; nothing of this machine is touched)
	@target/debug/demo-baremetal

.PHONY: demo-clouds
demo-clouds: control-plane ## Shows one cluster with Nodes and load balancers of Linode and cloudscale.ch, both simulated
	$(call say,Building the programs)
	@cargo build --workspace --locked
	$(call say,The demo: an API server and two simulated clouds)
	@target/debug/demo-clouds

.PHONY: demo-attack
demo-attack: programs ## Shows what a tenant, a stolen token, an unplugged rack and a restored backup did before, and what they get now
	$(call say,The attacks: on a small network of namespaces of its own; nothing of this machine is touched)
	@target/debug/demo-attack

.PHONY: demo-move
demo-move: programs ## Moves a cluster from MetalLB, whose own programs are built once, by the guide, while clients ask
	$(call say,MetalLB: built once from its Go module)
	@metallb=$$(tests/replaced-programs/build.sh metallb) && METALLB=$$metallb target/debug/demo-move

.PHONY: demo-control-plane
demo-control-plane: programs ## Shows an address for the control plane: three API servers with three members of etcd, a client that writes, each fault in turn
	$(call say,The demo: its own small network of namespaces; nothing of this machine is touched)
	@target/debug/demo-control-plane

.PHONY: test
test: programs vm helm ## Everything that proves the project
	@tests/run.sh

.PHONY: test-former
test-former: export REVISION ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD~1)
test-former: programs ## Exchanges the programs of a former version for these and back, on one segment; REVISION= says which, without it the last tag
	$(call say,The programs of $(REVISION), in a folder of their own)
	@former=$$(tests/former-programs.sh "$$REVISION") && FORMER=$$former cargo test --workspace --locked --test wire -- --ignored a_former_version

.PHONY: test-oldest
test-oldest: programs helm ## Runs the suites of services and of the chart with the kube-apiserver of the oldest Kubernetes that the chart permits
	@oldest=$$(tests/control-plane/oldest/build.sh) && KUBEBUILDER_ASSETS=$$oldest cargo test --workspace --locked --test services --test parts

.PHONY: programs
programs: packages control-plane
	$(call say,Building the programs)
	@cargo build --workspace --locked

.PHONY: packages
packages:
	$(call say,Debian packages that the networks of the tests need)
	@tests/install-packages.sh

.PHONY: control-plane
control-plane:
	$(call say,The control plane of the tests: built once; about four minutes on two cores)
	@tests/control-plane/build.sh

.PHONY: helm
helm:
	$(call say,The Helm that renders the chart: built once; about two minutes on two cores)
	@deploy/render.sh --helm

.PHONY: vm
vm: packages
	$(call say,The small VM of the tests: a kernel with VLANs in software emulation; unpacked once)
	@tests/vm/build.sh

# As they ship; what measures them has a profile of its own, which is soon built.
# The programs as they are shipped. Built together with the tests, the daemon would have what only the
# simulator needs: cargo gives a crate all features that any crate of one build asks for.
.PHONY: shipped
shipped:
	@cargo build --locked --release --package mooring-central --package mooring-node

.PHONY: figures
figures: programs ## Prints every figure that the docs speak of; memory is that of release builds
	$(call say,Release builds: what is resident of them is measured)
	@$(MAKE) shipped
	$(call say,Figures)
	@target/debug/demo | grep '^FIGURE'
	@cargo test --workspace --locked --test wire --test long --test services -- \
		announce:: figures:: leadership:: livez:: rolling:: services_alone:: 2>&1 | grep '^FIGURE'

.PHONY: pictures
pictures: programs ## Draws the dashboards of the docs from what a Prometheus sees in five minutes of a small cluster
	$(call say,The cluster: on a small network of namespaces of its own; nothing of this machine is touched)
	@cargo test --workspace --locked --test long -- --ignored the_dashboards_are_drawn

.PHONY: bench-nodes
bench-nodes: packages control-plane ## Measures 5,000 Nodes beside the targets; a quarter of an hour. NODES=, DAEMONS=, PER_SECOND=, SECONDS_STEADY= change it
	$(call say,Release builds: memory and processor time are measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin netlab-tool --bin bench-nodes
	$(call say,The bench: its own small network of namespaces; nothing of this machine is touched)
	@target/tools/bench-nodes

.PHONY: bench-cloudscale
bench-cloudscale: control-plane ## Measures load balancers of cloudscale.ch beside the Go controller. SERVICES=, NODES=, CROWD=, LATENCY_MS=, CHANGE_MS=, QPS= change it
	$(call say,Release builds: memory is measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin bench-cloudscale
	$(call say,The bench: an API server and a simulated cloud)
	@target/tools/bench-cloudscale

.PHONY: bench-linode
bench-linode: control-plane ## Measures NodeBalancers of Linode beside the Go controller; a quarter of an hour. SERVICES=, NODES=, QPS= change it
	$(call say,Release builds: memory is measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin bench-linode
	$(call say,The bench: an API server and a simulated cloud)
	@target/tools/bench-linode

.PHONY: bench-brightbox
bench-brightbox: control-plane ## Measures load balancers of Brightbox beside the Go controller; ten minutes. SERVICES=, NODES=, QPS= change it
	$(call say,Release builds: memory is measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin bench-brightbox
	$(call say,The bench: an API server and a simulated cloud)
	@target/tools/bench-brightbox

.PHONY: bench-services
bench-services: ## Counts what a Service costs when one of 5,000 Nodes changes, and what its address costs
	@cargo test --locked -p mooring-central --lib -- --include-ignored --nocapture --test-threads 1 cost

.PHONY: bench-phoenixnap
bench-phoenixnap: control-plane ## Measures addresses of Services at PhoenixNAP beside the Go controller; ten minutes. SERVICES=, NODES=, LATENCY_MS=, CHANGE_MS=, QPS= change it
	$(call say,Release builds: memory is measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin bench-phoenixnap
	$(call say,The bench: an API server and a simulated cloud)
	@target/tools/bench-phoenixnap

.PHONY: bench-failover
bench-failover: packages control-plane ## Measures what users notice of each kind of failure; an hour. REPETITIONS=, NODES=, ONLY=, SEED= change it
	$(call say,Release builds: memory and processor time are measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin netlab-tool --bin bench-failover
	$(call say,The bench: its own small network of namespaces; nothing of this machine is touched)
	@target/tools/bench-failover

.PHONY: bench-connections
bench-connections: packages control-plane ## Measures what it costs to keep connections with the node that they began at; five minutes. CONNECTIONS=, FLOWS=, SECONDS_EACH= change it
	$(call say,Release builds: the daemons are as they are shipped)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin netlab-tool --bin bench-connections
	$(call say,The bench: its own small network of namespaces; nothing of this machine is touched)
	@target/tools/bench-connections

.PHONY: bench-livez
bench-livez: packages control-plane ## Measures health checks beside kube-proxy's own; five minutes. REPETITIONS=, SERVICES=, CHANGES= change it
	$(call say,Release builds: memory and processor time are measured)
	@$(MAKE) shipped
	@cargo build --workspace --locked --profile tools --bin netlab-tool --bin bench-livez
	$(call say,The bench: its own small network of namespaces; nothing of this machine is touched)
	@target/tools/bench-livez

.PHONY: sweep-cloudscale
sweep-cloudscale: control-plane ## Lets something go wrong at each single call to cloudscale.ch; up to half an hour. CASE=, SEED=, AT_ONCE= change it
	$(call say,Building the programs)
	@cargo build --workspace --locked
	$(call say,The sweep: one API server, and for each case a simulated cloud and a central)
	@target/debug/sweep cloudscale

.PHONY: sweep-brightbox
sweep-brightbox: export EVERY = 1
sweep-brightbox: control-plane ## Kills central and loses answers at each write to Brightbox; a quarter of an hour
	$(call say,Building the programs)
	@cargo build --workspace --locked
	$(call say,The sweep: creation, deletion, another Cloud IP)
	@cargo test --workspace --locked --test brightbox crashes::

.PHONY: sweep-linode
sweep-linode: control-plane ## Lets something go wrong at each single call to Linode; up to half an hour. CASE=, SEED=, AT_ONCE= change it
	$(call say,Building the programs)
	@cargo build --workspace --locked
	$(call say,The sweep: one API server, and for each case a simulated cloud and a central)
	@target/debug/sweep linode

.PHONY: sweep-phoenixnap
sweep-phoenixnap: control-plane ## Lets something go wrong at each single call to PhoenixNAP. CASE=, SEED= change it
	$(call say,Building the programs)
	@cargo build --workspace --locked
	$(call say,The sweep: four API servers, and for each case a simulated cloud and a central)
	@SWEEP=all cargo test --workspace --locked --test phoenixnap -- --nocapture phoenixnap_services::call_failures

.PHONY: record-metallb
record-metallb: control-plane ## Records what MetalLB's own controller, built from its Go module, leaves in a cluster; ten minutes
	$(call say,MetalLB: built once; about eight minutes on two cores)
	@METALLB=$$(tests/replaced-programs/build.sh metallb) cargo test --workspace --locked --test services -- --ignored record_metallb

.PHONY: test-kube-vip
test-kube-vip: packages control-plane ## Moves the control plane's address from a real kube-vip, and measures both at faults; fifteen minutes. REPETITIONS= changes it
	$(call say,kube-vip: built once; about five minutes on two cores)
	@KUBE_VIP=$$(tests/replaced-programs/build.sh kube-vip) cargo test --workspace --locked --test wire -- --ignored --test-threads 1 kube_vip::

.PHONY: sim
sim: ## Drives the fail-over protocol through 200,000 schedules of faults. SCHEDULES=, FROM=, THREADS=, PROBING=1 change it; SEED= tells what happens in one
	$(call say,Building the simulator)
	@cargo build --workspace --locked --profile tools --bin sim
	@target/tools/sim

.PHONY: sweep-files
sweep-files: export SEEDS ?= 2000
sweep-files: ## Voters from files, as for an address of the control plane, in 2,000 schedules of faults; five minutes. SEEDS= changes it
	$(call say,Building the tests of the daemon)
	@cargo test --workspace --locked --lib --no-run
	$(call say,The sweep: real machines, and files, disks and wires in memory)
	@cargo test --workspace --locked --lib no_schedule_makes_two_speakers -- --nocapture

.PHONY: model
model: export ROUNDS ?= 6
model: ## Explores small simulations of the fail-over protocol to the end. ROUNDS= changes how long
	$(call say,Building the simulator)
	@cargo build --workspace --locked --profile tools --bin sim
	@target/tools/sim

.PHONY: fmt
fmt: ## The format is rustfmt's
	@cargo fmt --all --check

.PHONY: clippy
clippy: ## No warning is left
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@cargo clippy --package mooring-node --locked -- -D warnings    # as it is shipped: without what only the simulator needs

.PHONY: docs
docs: ## The documentation of the code builds without a warning
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

# The crate of the tests stands on all others: alone it is what `make programs` builds.
.PHONY: check-crates
check-crates: ## Each crate builds by itself, without what others switch on
	@for crate in mooring-common mooring-node mooring-central kubectl-mooring; do \
		echo "== $$crate"; cargo check --locked --package $$crate; done

.PHONY: manifests
manifests: ## Renders deploy/manifests from the chart
	@deploy/render.sh

.PHONY: manifests-check
manifests-check: ## The checked-in manifests are what the chart gives
	@deploy/render.sh --check

.PHONY: references
references: ## Writes the generated pages of docs/reference anew
	@WRITE_REFERENCES=1 cargo test --workspace --locked --test parts references::
	@WRITE_REFERENCES=1 cargo test --locked --package mooring-publish --lib published::

.PHONY: image
image: ## Builds both images and runs the programs in them (root; without a registry)
	@deploy/image.sh

.PHONY: test-install
test-install: programs image helm ## Installs, upgrades and removes Mooring on three nodes with real kubelets, by the docs, while a client asks (root)
	$(call say,Debian packages that nodes with containers need)
	@tests/install-packages.sh runc:runc /usr/lib/cni/bridge:containernetworking-plugins dbus-daemon:dbus-daemon \
		dbus-send:dbus-bin /usr/lib/python3/dist-packages/dbusmock/__init__.py:python3-dbusmock
	$(call say,Kubelet and containerd: built once; about four minutes on two cores)
	@tests/node-programs/build.sh >/dev/null
	$(call say,The installation: on a small network of namespaces of its own; nothing of this machine is touched)
	@NODE_PROGRAMS=$$(tests/node-programs/build.sh) HELM=$$(deploy/render.sh --helm) target/debug/test-install

.PHONY: release
release: ## Builds what a release publishes, for amd64 and arm64, into target/release-artifacts. ARCHES=amd64 builds one, ALLOW_DIRTY=1 what is not committed
	@deploy/release.sh

.PHONY: release-compare
release-compare: ## Builds a release, and once more in another folder: both must be the same bytes
	@deploy/release.sh --compare

.PHONY: site
site: ## Builds the pages as a site in target/site, and checks its links; mdBook is built once
	@docs/site.sh

.PHONY: deny
deny: ## Licences, sources and duplicates of dependencies are as deny.toml permits; without the network
	@cargo test --workspace --locked --test parts dependencies::

.PHONY: advisories
advisories: ## No dependency has a known fault (needs cargo-deny and the network)
	@cargo deny check advisories
