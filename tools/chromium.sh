#!/bin/sh
# Install Debian's Chromium for the tests that open a page in a browser, where that needs no question: on a
# Debian machine, as root, if there is none. Elsewhere, and if it fails, it says so and those tests decide.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
    echo "There is no Chromium, and it is not installed without apt-get and root: its tests are skipped." >&2
    exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    # Another apt-get may be at work.
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends \
        install chromium >"$log" 2>&1
}
if ! install; then
    # The lists of packages are missing or old.
    if ! apt-get -q -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 || ! install; then
        echo "Chromium could not be installed: $(tail -n 1 "$log")" >&2
    fi
fi
