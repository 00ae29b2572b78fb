#!/bin/sh
# Removes what differs at each build of an image: lists and caches of packages, logs, and backups that have a date.
# Each step that installs packages or adds a user runs it at its end.
set -eu
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache /var/lib/dpkg/*-old \
    /var/log/alternatives.log /var/log/apt /var/log/dpkg.log /var/log/faillog /var/log/lastlog \
    /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
