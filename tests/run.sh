#!/usr/bin/env bash
# All tests, as `make test` runs them. Suites that measure what is on the wire have the machine for
# themselves. Those that wait more than they work come last, side by side.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Nearly all of it is waiting for API servers of its own, so it has more threads than there are cores.
many_servers=(cloudscale_nodes cloudscale_services linode_nodes phoenixnap_nodes phoenixnap_services)
# A virtual machine in software emulation, and a search that needs nothing but a processor.
by_themselves=(vlan sim)

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# What was started beside ends as well.
trap 'trap - TERM; kill 0' INT TERM
failed=0

run() { cargo test --workspace --locked --no-fail-fast "$@" 2>&1; }
say() { printf '\n\033[1m== %s (after %d s)\033[0m\n' "$1" "$SECONDS"; }
suites() { printf -- '--test=%s\n' "$@"; }

mapfile -t others < <(
    for suite in */tests/*.rs */tests/*/main.rs; do
        suite=${suite%/main.rs} suite=${suite##*/}
        echo "${suite%.rs}"
    done | grep -vxF "$(printf '%s\n' "${many_servers[@]}" "${by_themselves[@]}")"
)
mapfile -t first < <(suites "${others[@]}")
mapfile -t second < <(suites "${many_servers[@]}")
mapfile -t third < <(suites "${by_themselves[@]}")

say "Unit tests, and suites on a real API server and real networks"
run --lib --bins "${first[@]}" | tee "$logs/first" || failed=1
run --doc | tee "$logs/doc" || failed=1

say "Load balancers; beside them the virtual machine and the simulator, whose output follows"
run "${third[@]}" >"$logs/third" &
beside=$!
RUST_TEST_THREADS=4 run "${second[@]}" | tee "$logs/second" || failed=1
wait "$beside" || failed=1
cat "$logs/third"

say "All of it"
cat "$logs"/* >"$logs/all"
grep -h '^FIGURE' "$logs/all" || true
awk '/^test result:/ { passed += $4; failed += $6 }
    END { printf "\n%d passed, %d failed\n", passed, failed }' "$logs/all"
exit "$failed"
