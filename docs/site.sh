#!/usr/bin/env bash
# Builds the pages as a site in target/site, and checks its links: `make site`.
#
# mdBook is built once from its crate, and kept outside the build tree.
#
#   MOORING_CACHE  where mdBook is kept (default: ~/.cache/mooring)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=0.5.4
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/mdbook-$version

say() { echo "site: $*" >&2; }

if [[ ! -x $cache/bin/mdbook ]]; then
    say "building mdBook once (about three minutes on two cores), kept in $cache"
    # Without its server, which watches and reloads.
    cargo install mdbook --version "$version" --locked --no-default-features --features search \
        --root "$cache" --quiet
fi
MDBOOK=$cache/bin/mdbook cargo run --quiet --locked --package mooring-publish --bin site
say "target/site/index.html, ${SECONDS} s"
