#!/usr/bin/env bash
# Provides the small VM of the tests: a Debian kernel, its modules, and a file system to start from.
# Prints their folder as the last line on stdout; progress goes to stderr.
#
#   MOORING_CACHE  where it is kept (default: ~/.cache/mooring)
#
# Nothing is installed: the kernel's package is unpacked in the cache. It is done once per version of
# this folder, outside of the build tree.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/vm
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { echo "vm: $*" >&2; }
die() { say "$*"; exit 1; }

sum=$(cat "$here/build.sh" "$here/init" | sha256sum | cut -c1-16)
built=$cache/$sum
if [[ -e $built/complete ]]; then
    echo "$built"
    exit 0
fi

for program in qemu-system-x86_64 busybox depmod modprobe dpkg-deb xz; do
    command -v "$program" >/dev/null ||
        die "$program is missing; run tests/install-packages.sh as an administrator once"
done
mkdir -p "$cache"
exec 9>"$cache/.lock"
if ! flock --nonblock 9; then
    say "another run is preparing it, waiting"
    flock 9
fi
if [[ -e $built/complete ]]; then
    echo "$built"
    exit 0
fi

scratch=$(mktemp -d "$cache/.scratch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# --- the kernel: not the one for clouds, which has no 9p ----------------------------------------
find_kernel() {
    apt-cache depends --important linux-image-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n1
}
package=$(find_kernel)
if [[ -z $package && $EUID -eq 0 ]]; then
    say "asking for lists of packages"
    apt-get update --quiet >&2
    package=$(find_kernel)
fi
[[ -n $package ]] ||
    die "the package linux-image-amd64 is not known here; run apt-get update as an administrator, on Debian"
say "fetching $package (70 MB)"
fetch() (cd "$scratch" && apt-get download --quiet "$package" 2>&1 | sed 's/^/    /' >&2)
fetch || { ((EUID == 0)) && apt-get update --quiet >&2 && fetch; } ||
    die "cannot fetch $package; run apt-get update as an administrator"
say "unpacking it after ${SECONDS} s"
# Drivers of real hardware are of no use here.
dpkg-deb --fsys-tarfile "$scratch"/linux-image-*.deb | tar -x -C "$scratch" --exclude='./usr' \
    --exclude='*/kernel/drivers/net/ethernet' --exclude='*/kernel/drivers/net/wireless' \
    --exclude='*/kernel/drivers/gpu' --exclude='*/kernel/drivers/media' --exclude='*/kernel/sound' \
    --exclude='*/kernel/drivers/scsi' --exclude='*/kernel/drivers/usb' \
    --exclude='*/kernel/drivers/infiniband' --exclude='*/kernel/drivers/iio' \
    --exclude='*/kernel/drivers/staging' --exclude='*/kernel/drivers/input' \
    --exclude='*/kernel/drivers/hwmon' --exclude='*/kernel/drivers/md' --exclude='./boot/System.map*'
kernel=$(ls "$scratch/lib/modules")
depmod -b "$scratch" "$kernel" 2>/dev/null || die "depmod failed"

# --- what the kernel starts from ----------------------------------------------------------------
say "packing the initial file system after ${SECONDS} s"
first=$scratch/first
mkdir -p "$first/bin" "$first/modules" "$first/dev"
cp "$(command -v busybox)" "$first/bin/busybox"
install -m 755 "$here/init" "$first/init"
for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe --dirname "$scratch" --set-version "$kernel" --show-depends "$module"
done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' >"$scratch/needed"
while read -r path; do
    cp "$path" "$first/modules/"
    basename "$path" >>"$first/modules/order"
done <"$scratch/needed"
(cd "$first" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$scratch/initrd"

# The emulated machine would take seconds to unpack the kernel at each start.
packed=$scratch/boot/vmlinuz-$kernel
start=$(LC_ALL=C grep --only-matching --byte-offset --text --perl-regexp '\xfd7zXZ\x00' "$packed" |
    awk -F: 'NR == 1 { print $1 }') || true
[[ -n $start ]] || die "$package is not packed with xz, which this script expects"
# xz complains of what follows the packed part.
tail --bytes=+$((start + 1)) "$packed" | xz --decompress --stdout >"$scratch/vmlinux" 2>/dev/null || true
[[ -s $scratch/vmlinux ]] || die "the kernel of $package cannot be unpacked"
mkdir -p "$scratch/done"
mv "$scratch/vmlinux" "$scratch/initrd" "$scratch/lib" "$scratch/done/"
touch "$scratch/done/complete"
rm -rf "$built"
mv "$scratch/done" "$built"
say "ready after ${SECONDS} s, $(du -sh "$built" | cut -f1) in $built"
echo "$built"
