#!/usr/bin/env bash
# Installs the Debian packages that the network suites and the demo need. Run it as root once;
# for anybody else it prints the line for the administrator.
set -euo pipefail

packages=(iproute2 nftables util-linux mount)

missing=()
for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done

if [[ ${#missing[@]} -eq 0 ]]; then
    echo "All packages are installed: ${packages[*]}"
elif [[ $EUID -eq 0 ]]; then
    apt-get update --quiet
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
else
    echo "An administrator needs to run this once:" >&2
    echo "    apt-get install --yes ${missing[*]}" >&2
    exit 1
fi
