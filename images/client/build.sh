#!/bin/sh
# Builds librdkafka with Kerberos: the wheel of confluent-kafka has none. Runs in a stage of the images that have a Kafka client.
# FOLDER/librdkafka.tgz holds its sources; the result is FOLDER/librdkafka.so.1. The folder is /client, or the argument.
set -eu
folder=${1:-/client}
apt-get update -qq
apt-get install -y -qq --no-install-recommends gcc g++ make pkg-config libc6-dev libsasl2-dev libssl-dev libcurl4-openssl-dev \
    libzstd-dev zlib1g-dev >/dev/null
mkdir "$folder/source"
tar -xzf "$folder/librdkafka.tgz" -C "$folder/source" --strip-components=3 package/deps/librdkafka
cd "$folder/source"
# The archive keeps no file modes.
chmod +x configure lds-gen.py
./configure --enable-gssapi --disable-lz4-ext --disable-debug-symbols >"$folder/log" 2>&1 || { tail -50 "$folder/log"; exit 1; }
make -C src -j "$(nproc)" librdkafka.so.1 >>"$folder/log" 2>&1 || { tail -50 "$folder/log"; exit 1; }
strip --strip-unneeded -o "$folder/librdkafka.so.1" src/librdkafka.so.1
