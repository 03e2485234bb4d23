#!/usr/bin/env bash
# All tests, as `make test` runs them: three groups of suites that run side by side. The group that
# measures on the wire has priority for a processor, and runs one suite after the other.
#
# What has failed is in target/test-results/failed afterwards: for each test a line with the folder to
# run it in, its program and its name; what failed otherwise has a line without the last two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=${CARGO_TARGET_DIR:-$PWD/target}/test-results
rm -rf "$results" && mkdir -p "$results"
# What was started beside ends as well.
trap 'trap - TERM; kill 0' INT TERM

say() { printf '\n\033[1m== %s (after %d s)\033[0m\n' "$1" "$SECONDS"; }
# A group's own folder, for what it prints and what comes of its tests.
group() {
    export RESULTS=$results/$1
    mkdir "$RESULTS" && touch "$RESULTS"/{log,times,failed}
}
# Cargo calls a script for each program, which writes down what comes of its tests.
runner="target.'cfg(all())'.runner = '$PWD/tests/run-program.sh'"
run() {
    local known
    known=$(wc -l <"$RESULTS/failed")
    cargo --config "$runner" test --workspace --locked --no-fail-fast "$@" >>"$RESULTS/log" 2>&1 ||
        [ "$known" -lt "$(wc -l <"$RESULTS/failed")" ] || echo "cargo test $*" >>"$RESULTS/failed"
}
# What a group has printed so far, and what it prints until it ends.
follow() { tail --lines=+1 --follow --pid="$2" "$results/$1/log"; }

say "Building the tests"
cargo test --workspace --locked --no-run

group wire
{
    SUITE_BY_SUITE=1 run --test wire
    # These follow here so that all groups end at about the same time.
    renice --priority 19 "$BASHPID" >/dev/null
    RUST_TEST_THREADS=12 run --test linode
} &
wire=$!

group long
{
    renice --priority 19 "$BASHPID" >/dev/null
    SUITE_BY_SUITE=1 run --test long
} &
long=$!

group servers
{
    renice --priority 19 "$BASHPID" >/dev/null
    run --lib --bins
    # Most of it is waiting for API servers, so there are more threads than processors.
    RUST_TEST_THREADS=4 run --test nodes --test services --test parts
    run --doc
    RUST_TEST_THREADS=12 run --test brightbox --test phoenixnap
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
for what in log times failed; do
    cat "$results"/{wire,long,servers}/$what >"$results/$what"
done
grep -h '^FIGURE' "$results/log" || true
printf '\nThe ten slowest:\n'
# Read to the end: whoever closes a pipe early lets its writer fail.
sort --reverse --general-numeric-sort "$results/times" | sed -n '1,10s/ / s  /p'
awk -F '\t' '{ print "failed: " ($3 ? $3 : $1) }' "$results/failed"
awk '/^test result:/ { passed += $4; failed += $6 }
    END { printf "\n%d passed, %d failed\n", passed, failed }' "$results/log"
[ ! -s "$results/failed" ]
