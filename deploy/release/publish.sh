#!/usr/bin/env bash
# Publishes images and chart of target/release-artifacts/VERSION where deploy/published-at says, and looks that
# there is now what was built. Needs skopeo.
#
#   REGISTRY_USER, REGISTRY_PASSWORD  who may write there; absent: whoever skopeo and Helm are logged in as
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
registry=$(grep -v '^#' deploy/published-at)
helm=$(deploy/render.sh --helm)

say() { echo "publish: $*" >&2; }
die() { say "$*"; exit 1; }

cd "target/release-artifacts/$version" || die "there is no release $version: make release"
sha256sum --quiet --check SHA256SUMS
command -v skopeo >/dev/null || die "skopeo is missing, which copies images"
if [[ -n ${REGISTRY_USER:-} ]]; then
    skopeo login --username "$REGISTRY_USER" --password-stdin "${registry%%/*}" <<<"$REGISTRY_PASSWORD"
    "$helm" registry login --username "$REGISTRY_USER" --password-stdin "${registry%%/*}" <<<"$REGISTRY_PASSWORD"
fi
while read -r file image; do
    name=${image%@*} digest=${image#*@}
    # A version that is published stays what it is.
    if there=$(skopeo inspect --format '{{.Digest}}' "docker://$name" 2>/dev/null); then
        [[ $there == "$digest" ]] || die "$name is published as $there already, and this release has $digest"
        say "$name is there already"
        continue
    fi
    skopeo copy --all --preserve-digests "oci-archive:$file" "docker://$name"
    there=$(skopeo inspect --format '{{.Digest}}' "docker://$name")
    [[ $there == "$digest" ]] || die "$name was published as $there instead of $digest"
    say "$name@$digest"
done <images.txt
"$helm" push "mooring-$version.tgz" "oci://$registry"
