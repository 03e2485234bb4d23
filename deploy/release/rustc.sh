#!/bin/sh
# The compiler of releases: the one that MOORING_RUSTC names, told to write no path of this machine into
# programs. As RUSTC it is out of cargo's sight, which would make other names of symbols from other flags.
exec ${MOORING_RUSTC:-rustc} "$@" \
    --remap-path-prefix="$MOORING_SOURCE=/mooring" \
    --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo"
