#!/bin/sh
# Lays out what an image contains, and nothing else: a program, the libraries that it is linked against, the
# authorities that it trusts, and names of users. The Dockerfile and releases both take it from here. Prints
# the files of this machine that it has taken besides the program.
#
#   deploy/image-root.sh central|node PROGRAM CC FOLDER [LIBRARIES]
#
# CC is the C compiler that has linked the program: it knows where the libraries of its architecture are, unless
# LIBRARIES is a folder that has them.
set -eu

image=$1 program=$2 cc=$3 root=$4 libraries=${5:-}

mkdir -p "$root/etc/ssl/certs" "$root/usr/bin"
cp "$program" "$root/usr/bin/mooring-$image"
chmod 755 "$root/usr/bin/mooring-$image"

# The path of a library on this machine.
find_library() {
    if [ -n "$libraries" ]; then
        path=$(find "$libraries" -name "$1" | head -n 1)
    else
        path=$("$cc" --print-file-name="$1")
    fi
    case $path in
        /*) ;;
        *) echo "image-root: there is no $1, which $program needs" >&2; exit 1 ;;
    esac
    readlink -f "$path"
}

# What is needed by a file, and by what that needs.
needed() {
    for name in $(LC_ALL=C readelf --dynamic "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'); do
        case " $found " in *" $name "*) continue ;; esac
        found="$found $name"
        needed "$(find_library "$name")"
    done
}

# The loader is where the program says, and the rest where that loader looks.
loader=$(LC_ALL=C readelf --program-headers "$program" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
found=
needed "$program"
folder=/lib/$("$cc" -print-multiarch)
[ "$folder" != /lib/ ] || folder=/lib/$("$cc" -dumpmachine)
for name in $found; do
    source=$(find_library "$name")
    target=$folder/$name
    [ "$name" != "${loader##*/}" ] || target=$loader
    mkdir -p "$root${target%/*}"
    cp "$source" "$root$target"
    echo "$source"
done
if [ ! -e "$root$loader" ]; then
    source=$(find_library "${loader##*/}")
    mkdir -p "$root${loader%/*}"
    cp "$source" "$root$loader"
    echo "$source"
fi
chmod 755 "$root$loader"

cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo /etc/ssl/certs/ca-certificates.crt
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
printf '%s\n' 'root:x:0:0::/:/' 'nonroot:x:65532:65532::/:/' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'nonroot:x:65532:' >"$root/etc/group"

# The names that the manifests of the Go controllers of cloudscale.ch and PhoenixNAP call.
if [ "$image" = central ]; then
    ln -s mooring-central "$root/usr/bin/cloudscale-cloud-controller-manager"
    ln -s usr/bin/mooring-central "$root/cloud-provider-phoenixnap"
fi
