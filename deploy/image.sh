#!/usr/bin/env bash
# Builds both images from the Dockerfile without any registry, and runs each program in its image.
#
# The build stage stands on a small Debian made by debootstrap, into which this machine's own Rust
# toolchain is mounted (Debian's is too old). Needs root; installs debootstrap and buildah from
# Debian where they are missing. Takes some 6 minutes on two cores the first time,
# of which compiling is most; what has been compiled is kept for the next time.
#
#   MOORING_CACHE  where the base and what has been compiled are kept (default: ~/.cache/mooring)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/image
base=localhost/mooring-build-base:bookworm
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)

say() { echo "image: $*, ${SECONDS} s" >&2; }
die() { echo "image: $*" >&2; exit 1; }

[[ $(id -u) -eq 0 ]] || die "building images needs root; run it as root, or build the Dockerfile with your own tools"
command -v cargo >/dev/null || die "no cargo found; the Rust toolchain of this machine is what builds the programs"

missing=()
for package in debootstrap buildah; do
    command -v "$package" >/dev/null || missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
    say "installing ${missing[*]}"
    told=$(apt-get update 2>&1 && apt-get install --yes --no-install-recommends "${missing[@]}" 2>&1) || {
        tail -n 5 <<<"$told" >&2
        die "could not install ${missing[*]}"
    }
fi

# Image storage of its own, on any file system, for one build at a time. The Dockerfile's caches go to TMPDIR.
mkdir -p "$cache"/{storage,run,tmp}
exec 9>"$cache/lock"
flock 9
export TMPDIR=$cache/tmp
scratch=$(mktemp -d)
# First of all it runs a copy of itself that is sealed in memory, which the kernel now and then refuses:
# then nothing was done, and it is run again.
buildah() {
    local errors=$scratch/errors
    for _ in {1..5}; do
        if { run_buildah "$@" 2>&1 >&3 3>&- | tee "$errors" >&2 3>&-; } 3>&1; then
            return 0
        fi
        grep --quiet 'sealing memfd copy' "$errors" || return 1
    done
    return 1
}
run_buildah() {
    command buildah --storage-driver vfs --root "$cache/storage" --runroot "$cache/run" "$@"
}
containers=()
clean_up() {
    local container
    for container in "${containers[@]}"; do
        buildah rm "$container" >/dev/null 2>&1 || true
    done
    rm -rf "$scratch"
}
trap clean_up EXIT

# What a build that failed has left would keep its images.
buildah rm --all >/dev/null 2>&1 || true

# --- the base of the build stage ---------------------------------------------------------------
if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    say "making the base with debootstrap"
    debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev bookworm "$scratch/root" \
        >"$scratch/debootstrap.log" 2>&1 || {
        tail -n 5 "$scratch/debootstrap.log" >&2
        die "debootstrap failed"
    }
    rm -rf "$scratch"/root/var/cache/apt/archives/*.deb "$scratch"/root/var/lib/apt/lists/*
    container=$(buildah from scratch)
    containers+=("$container")
    buildah add --quiet "$container" "$scratch/root" / >/dev/null
    buildah config --env PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        --env CARGO_HOME=/opt/cargo "$container"
    buildah commit --quiet "$container" "$base" >/dev/null
    rm -rf "$scratch/root"
fi

# --- the images --------------------------------------------------------------------------------
toolchain=$(rustc --print sysroot)
registry=${CARGO_HOME:-$HOME/.cargo}/registry
mkdir -p "$registry"
# Both stand on the same build stage, so it is kept until the second is there.
for program in central node; do
    say "building mooring-$program"
    buildah build --isolation chroot --layers --quiet \
        --build-arg "BUILD_BASE=$base" --build-arg "VERSION=$version" \
        --volume "$toolchain:/opt/rust:ro" \
        --volume "$registry:/opt/cargo/registry" \
        --target "$program" --tag "localhost/mooring-$program:$version" . >/dev/null
done

# --- do they run? ------------------------------------------------------------------------------
for program in central node; do
    image=localhost/mooring-$program:$version
    container=$(buildah from --pull-never "$image")
    containers+=("$container")
    told=$(buildah run --isolation chroot "$container" -- "/usr/bin/mooring-$program" --version)
    [[ $told == *"$version"* ]] || die "mooring-$program --version in its image said: $told"
    root=$(buildah mount "$container")
    size=$(du --summarize --bytes "$root" | cut -f1)
    user=$(buildah inspect --type image --format '{{.OCIv1.Config.User}}' "$image")
    echo "$image: $told, user $user, $((size / 1024)) KiB in $(find "$root" -type f | wc -l) files"
done
# The names that the manifests of Go controllers call, in PATH and from the root.
container=$(buildah from --pull-never "localhost/mooring-central:$version")
containers+=("$container")
for old in cloudscale-cloud-controller-manager ./cloud-provider-phoenixnap; do
    told=$(buildah run --isolation chroot "$container" -- "$old" --version)
    [[ $told == "mooring-central $version" ]] || die "$old --version in its image said: $told"
done
buildah rmi --prune >/dev/null
say "done"
