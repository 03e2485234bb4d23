#!/usr/bin/env bash
# Installs the Debian packages that the network suites, the test VM and the demo need. Run it as root once;
# for anybody else it prints the line for the administrator.
#
# Arguments are further programs, or files by their paths, that a recipe needs, each as program:package.
set -euo pipefail

# Programs, and the packages that have them.
needed=(ip:iproute2 bridge:iproute2 nft:nftables iptables:iptables ip6tables:iptables unshare:util-linux setpriv:util-linux mount:mount)
needed+=(qemu-system-x86_64:qemu-system-x86 busybox:busybox-static modprobe:kmod xz:xz-utils)
needed+=(wrk:wrk promtool:prometheus curl:curl jq:jq "$@")
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=()
for pair in "${needed[@]}"; do
    command -v "${pair%%:*}" >/dev/null || [[ ${pair%%:*} == /* && -e ${pair%%:*} ]] || missing+=("${pair#*:}")
done

if [[ ${#missing[@]} -eq 0 ]]; then
    echo "All programs are there: ${needed[*]%%:*}"
elif [[ $EUID -eq 0 ]]; then
    apt-get update --quiet
    # Of prometheus, only the programs are needed: where it is new, its service does not start.
    if [[ " ${missing[*]} " == *" prometheus "* && ! -e /etc/systemd/system/prometheus.service ]]; then
        mkdir -p /etc/systemd/system
        ln -s /dev/null /etc/systemd/system/prometheus.service
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
else
    echo "An administrator needs to run this once:" >&2
    echo "    apt-get install --yes ${missing[*]}" >&2
    exit 1
fi
