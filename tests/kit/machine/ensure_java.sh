#!/usr/bin/env bash
# Owns the check for Maven and a Java that Spark supports. Installs them if permitted, else prints how to do it.
set -euo pipefail

java_major() {
  local version
  version=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1) || true
  echo "${version:-none}"
}

have_both() {
  case "$(java_major)" in 17 | 21) command -v mvn >/dev/null ;; *) return 1 ;; esac
}

have_both && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "==> Java 17 and Maven (Debian packages)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless maven >/dev/null
  have_both && exit 0
fi
echo "Gapless needs Java 17 or 21 (found: $(java_major)) and Maven on the PATH for Spark and the test broker: install them (Debian: sudo apt-get install openjdk-17-jre-headless maven) and run the same command again." >&2
exit 2
