#!/usr/bin/env bash
# Owns the check for Chromium and a font for the report page tests. Installs them if permitted, else prints how to do it.
set -euo pipefail

have_both() {
  command -v chromium >/dev/null && { ! command -v fc-list >/dev/null || [ -n "$(fc-list 'DejaVu Sans')" ]; }
}

have_both && exit 0
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
  echo "==> Chromium and the DejaVu fonts (Debian packages)"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends chromium fontconfig fonts-dejavu-core >/dev/null
  have_both && exit 0
fi
echo "Gapless needs chromium on the PATH and the DejaVu fonts for the tests of the report page: install them (Debian: sudo apt-get install chromium fonts-dejavu-core) and run the same command again." >&2
exit 2
