#!/usr/bin/env bash
# Builds both programs as they were at a revision, and prints their folder as the last line on stdout. Progress goes
# to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

revision=$(git rev-parse --verify "${1:?a revision}^{commit}")
target=${CARGO_TARGET_DIR:-$PWD/target}
folder=$target/former
mkdir -p "$folder"
source=$(mktemp -d "$folder/.source.XXXXXX")
trap 'rm -rf "$source"' EXIT
git archive "$revision" | tar --extract --directory "$source"
# One folder for all revisions: their dependencies are mostly the same.
(cd "$source" && CARGO_TARGET_DIR=$folder cargo build --locked --package mooring-central --package mooring-node >&2)
built=$folder/$revision
mkdir -p "$built"
cp "$folder"/debug/mooring-{central,node} "$built/"
echo "$built"
