# After the installation, for dpkg and for rpm: the user of the services, and the bytecode, which starts need.
set -e
if ! getent passwd gapless-mirror >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/gapless-mirror --no-create-home --shell /usr/sbin/nologin gapless-mirror
fi
"@PYTHON@" -m compileall -q /usr/lib/gapless >/dev/null 2>&1 || true
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
