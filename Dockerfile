# Both programs as images of their own, with nothing in them but the program, the C library that it
# was linked against, and the authorities that it trusts.
#
#   docker build --target central --tag mooring-central .
#   docker build --target node    --tag mooring-node .
#
# deploy/image.sh builds and tries both where no registry can be reached.

# What it is built on: any image with the Rust toolchain of rust-toolchain.toml and a C compiler.
ARG BUILD_BASE=rust:1.95-slim-bookworm
# What the final images begin with: nothing. One with a shell may be handy for a look around.
ARG BASE=scratch

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY . .
# Crates and what has been compiled stay on the building machine between builds. Only the two programs are
# built: together with the tests, the daemon would have their feature `simulator`.
RUN --mount=type=cache,id=mooring-crates,target=/usr/local/cargo/registry \
    --mount=type=cache,id=mooring-target,target=/src/target \
    cargo build --release --locked --package mooring-central --package mooring-node \
    && install -D --target-directory /programs \
        target/release/mooring-central target/release/mooring-node
RUN set -e; \
    for program in central node; do \
        deploy/image-root.sh "$program" "/programs/mooring-$program" gcc "/images/$program"; \
    done

FROM ${BASE} AS node
ARG VERSION=dev
LABEL org.opencontainers.image.title="mooring-node" \
      org.opencontainers.image.description="Mooring's node daemon: describes its Node and announces service addresses" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /images/node /
# Root, but the manifests leave it two capabilities only: NET_ADMIN and NET_RAW.
USER 0:0
ENTRYPOINT ["/usr/bin/mooring-node"]

# The last one, so that it is what a build without --target gives.
FROM ${BASE} AS central
ARG VERSION=dev
LABEL org.opencontainers.image.title="mooring-central" \
      org.opencontainers.image.description="Mooring's cloud controller manager: holds the cloud credentials" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /images/central /
ENV PATH=/usr/bin
USER 65532:65532
ENTRYPOINT ["/usr/bin/mooring-central"]
