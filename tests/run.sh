#!/usr/bin/env bash
# All tests, as `make test` runs them: three lanes, side by side. What measures on the wire is first
# in line for a processor, one suite after the other; the other lanes are nice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What is asserted of the times at which frames and answers pass.
wire_suites=(announce bench_failover bench_livez failover livez responder rig_failover rig_netlab rolling)
# What takes long one by one: benches and sweeps in small, a virtual machine in software emulation.
long_suites=(bench_cloudscale bench_nodes bench_phoenixnap cloudscale_sweep fence metadata sim vlan)
# What follows in the lane of the wire, so that all lanes end at about the same time.
late_suites=(phoenixnap_services)
# All others. Most of it is waiting for API servers of its own, so it has more threads than there are
# cores.
mapfile -t servers_suites < <(
    for suite in */tests/*.rs */tests/*/main.rs; do
        suite=${suite%/main.rs} suite=${suite##*/}
        echo "${suite%.rs}"
    done | grep -vxF "$(printf '%s\n' "${wire_suites[@]}" "${long_suites[@]}" "${late_suites[@]}")"
)

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# What was started beside ends as well.
trap 'trap - TERM; kill 0' INT TERM

say() { printf '\n\033[1m== %s (after %d s)\033[0m\n' "$1" "$SECONDS"; }
run() { cargo test --workspace --locked --no-fail-fast "$@" >>"$log" 2>&1 || touch "$logs/failed"; }
suites() { printf -- '--test=%s\n' "$@"; }
# What a lane has printed so far, and what it prints until it ends.
follow() { tail --lines=+1 --follow --pid="$2" "$logs/$1.log"; }

say "Building the tests"
cargo test --workspace --locked --no-run

log=$logs/wire.log && touch "$log"
# shellcheck disable=SC2046
{
    run $(suites "${wire_suites[@]}")
    renice --priority 19 "$BASHPID" >/dev/null
    RUST_TEST_THREADS=4 run $(suites "${late_suites[@]}")
} &
wire=$!

log=$logs/long.log && touch "$log"
# shellcheck disable=SC2046
{ renice --priority 19 "$BASHPID" >/dev/null && run $(suites "${long_suites[@]}"); } &
long=$!

log=$logs/servers.log && touch "$log"
# shellcheck disable=SC2046
{
    renice --priority 19 "$BASHPID" >/dev/null
    run --lib --bins
    RUST_TEST_THREADS=4 run $(suites "${servers_suites[@]}")
    run --doc
} &
servers=$!

say "What is on the wire. Beside it, all the rest, whose output follows"
follow wire "$wire"
say "Benches and sweeps in small, and the virtual machine"
follow long "$long"
say "Unit tests, and suites on a real API server"
follow servers "$servers"
wait

say "All of it"
cat "$logs"/*.log >"$logs/all"
grep -h '^FIGURE' "$logs/all" || true
awk '/^test result:/ { passed += $4; failed += $6 }
    END { printf "\n%d passed, %d failed\n", passed, failed }' "$logs/all"
[ ! -e "$logs/failed" ]
