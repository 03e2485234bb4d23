#!/usr/bin/env bash
# Runs one test program for tests/run.sh, whom cargo calls this for. Besides, it writes down how long each
# test took, and which failed.
#
#   RESULTS         a folder: `times` gets a line for each test, with its seconds and its name, and
#                   `failed` one for each that failed: where it ran, the program and its name
#   SUITE_BY_SUITE  if set, one suite begins when the one before has ended
set -euo pipefail
program=$(realpath "$1") && shift

# The times are an option of nightly toolchains; this permits it to a program that is built.
export RUSTC_BOOTSTRAP=1

all_passed=true
run() {
    local log status=0
    log=$(mktemp)
    # Each option is one word: some tests take all others for names of tests.
    "$program" "$@" -Zunstable-options --report-time "--logfile=$log" || status=$?
    sed -nE 's/^(ok|failed)(: [^<]*)? ([^ ]+) <([0-9.]+)s>$/\4 \3/p' "$log" >>"$RESULTS/times"
    if [ "$status" -ne 0 ]; then
        all_passed=false
        sed -nE 's/^failed(: [^<]*)? ([^ ]+) <[0-9.]+s>$/\2/p' "$log" | failed
    fi
    # It ended in the middle, with other tests not run.
    [ "$status" -eq 0 ] || [ "$status" -eq 101 ] || echo | failed
    rm "$log"
}
failed() {
    while read -r name; do
        printf '%s\t%s\t%s\n' "$PWD" "$program" "$name" >>"$RESULTS/failed"
    done
}

if [ -n "${SUITE_BY_SUITE:-}" ]; then
    tests=$("$program" --list --format=terse)
    for suite in $(sed -n 's/::.*: test$//p' <<<"$tests" | uniq); do
        mapfile -t names < <(sed -n "s/^\($suite::.*\): test$/\1/p" <<<"$tests")
        printf '\n     Suite %s\n' "$suite"
        run "$@" --exact "${names[@]}"
    done
else
    run "$@"
fi
$all_passed
