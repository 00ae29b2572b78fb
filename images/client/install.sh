#!/bin/sh
# Installs what the library of build.sh needs, in the image itself: Cyrus SASL with its module for Kerberos, curl and zstd.
set -eu
apt-get update -qq
apt-get install -y -qq --no-install-recommends libsasl2-2 libsasl2-modules-gssapi-mit libcurl4 libzstd1 >/dev/null
