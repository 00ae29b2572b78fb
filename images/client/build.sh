#!/bin/sh
# Builds librdkafka with Kerberos: the wheel of confluent-kafka has none. Runs in a stage of the images that have a Kafka client.
# FOLDER/librdkafka.tgz holds its sources; the result is FOLDER/librdkafka.so.1. The folder is /client, or the argument.
# TARGETARCH is the architecture that it is for, as Debian calls it; without one, that of this machine.
set -eu
folder=${1:-/client}
own=$(dpkg --print-architecture)
target=${TARGETARCH:-$own}
compilers="gcc g++"
prefix=
if [ "$target" != "$own" ]; then
    case $target in
        amd64) cpu=x86_64 compilers="gcc-x86-64-linux-gnu g++-x86-64-linux-gnu" ;;
        arm64) cpu=aarch64 compilers="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu" ;;
        *) echo "build.sh: $target is not known: use amd64 or arm64." >&2; exit 2 ;;
    esac
    prefix=$cpu-linux-gnu-
    export CC="${prefix}gcc" CXX="${prefix}g++" PKG_CONFIG_LIBDIR="/usr/lib/$cpu-linux-gnu/pkgconfig:/usr/share/pkgconfig"
    dpkg --add-architecture "$target"
fi
apt-get update -qq
# shellcheck disable=SC2086 # two packages
apt-get install -y -qq --no-install-recommends $compilers make pkg-config "libc6-dev:$target" "libsasl2-dev:$target" "libssl-dev:$target" \
    "libcurl4-openssl-dev:$target" "libzstd-dev:$target" "zlib1g-dev:$target" >/dev/null
mkdir "$folder/source"
tar -xzf "$folder/librdkafka.tgz" -C "$folder/source" --strip-components=3 package/deps/librdkafka
cd "$folder/source"
# The archive keeps no file modes.
chmod +x configure lds-gen.py
./configure ${prefix:+--host=${prefix%-}} --enable-gssapi --disable-lz4-ext --disable-debug-symbols >"$folder/log" 2>&1 || { tail -50 "$folder/log"; exit 1; }
make -C src -j "$(nproc)" librdkafka.so.1 >>"$folder/log" 2>&1 || { tail -50 "$folder/log"; exit 1; }
${prefix}strip --strip-unneeded -o "$folder/librdkafka.so.1" src/librdkafka.so.1
