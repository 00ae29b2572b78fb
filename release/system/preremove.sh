# Before the removal and before an upgrade, for dpkg and for rpm: the bytecode, which no package owns.
set -e
# rpm calls this with 1 for an upgrade, when the bytecode is already that of the new package.
if [ "$1" = 1 ]; then
    exit 0
fi
find /usr/lib/gapless -name __pycache__ -type d -prune -exec rm -rf {} +
