#!/usr/bin/env bash
# Builds everything that a release publishes, into target/release-artifacts/VERSION: `make release`.
#
#   deploy/release.sh              builds it
#   deploy/release.sh --compare    builds it, and once more in a clone in another folder, and fails unless both
#                                  are the same bytes: `make release-compare`
#   deploy/release.sh --check-tag TAG
#                                  builds nothing; fails unless TAG may be released
#
#   ARCHES           the architectures (default: amd64 arm64)
#   ALLOW_DIRTY      1 builds although something is not committed, to try the recipe
#   RELEASE_SOURCE   where the source is published, for provenance.json
#   RELEASE_BUILDER  who builds, for provenance.json
#   MOORING_CACHE    where tools are kept (default: ~/.cache/mooring)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
export ARCHES=${ARCHES:-amd64 arm64}

say() { echo "release: $*" >&2; }
die() { say "$*"; exit 1; }

# What must agree before anybody may have it.
check_tag() {
    local tag=$1 chart heading
    [[ $tag == "v$version" ]] || die "the tag is $tag, and Cargo.toml has version $version: the tag must be v$version"
    chart=$(sed -n 's/^version: //p' deploy/chart/mooring/Chart.yaml)
    [[ $chart == "$version" ]] || die "Cargo.toml has version $version, and the chart has $chart"
    heading=$(grep "^## $version\b" RELEASE_NOTES.md) || die "RELEASE_NOTES.md has no section '## $version'"
    [[ $heading != *unreleased* ]] || die "RELEASE_NOTES.md says '$heading': give it the date of the release"
    say "$tag may be released"
}

build() {
    local dirty commit architecture
    dirty=$(git status --porcelain)
    [[ -z $dirty || ${ALLOW_DIRTY:-} == 1 ]] || {
        head -n 5 <<<"$dirty" >&2
        die "something is not committed, so that nobody could build the same; commit it, or try with ALLOW_DIRTY=1"
    }
    commit=$(git rev-parse HEAD)${dirty:+-dirty}
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    for architecture in $ARCHES; do
        deploy/release/build.sh "$architecture" >/dev/null
    done
    HELM=$(deploy/render.sh --helm)
    export HELM COMMIT=$commit VERSION=$version WORKSPACE=$PWD
    export RELEASE_SOURCE=${RELEASE_SOURCE:-urn:mooring:source} RELEASE_BUILDER=${RELEASE_BUILDER:-urn:mooring:builder:local}
    cargo run --quiet --locked --package mooring-publish --bin release
    (cd "target/release-artifacts/$version" && sha256sum --quiet --check SHA256SUMS && du --apparent-size --bytes ./* | sort --key 2)
    say "target/release-artifacts/$version is complete, ${SECONDS} s"
}

# Another folder, of another name, which has nothing that was built here.
compare() {
    local built=target/release-artifacts/$version other=$PWD/target/release-compare/in-a-folder-of-another-name
    build >/dev/null
    rm -rf "$other"
    git clone --quiet --no-hardlinks . "$other"
    say "building once more, in $other"
    (cd "$other" && deploy/release.sh >/dev/null)
    diff --recursive --brief "$built" "$other/$built" || die "the two builds differ; both are left as they are"
    rm -rf "$other"
    say "both builds are the same bytes, ${SECONDS} s"
    (cd "$built" && sha256sum SHA256SUMS)
}

case ${1:-} in
    "") build ;;
    --compare) compare ;;
    --check-tag) check_tag "${2:-}" ;;
    *) die "unknown argument $1; it takes --compare, --check-tag TAG, or nothing" ;;
esac
