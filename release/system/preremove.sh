# Before the removal and before an upgrade, for dpkg and for rpm: the bytecode, which no package owns.
set -e
find /usr/lib/gapless -name __pycache__ -type d -prune -exec rm -rf {} +
