#!/bin/sh
# Install the programs from Debian's packages that tests compare with or run in, Chromium and kcat, where that needs
# no question: on a Debian machine, as root, those that are missing. Elsewhere, and if it fails, it says so and the
# tests decide.
set -eu

has() {
    for name in "$@"; do
        if command -v "$name" >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

missing=
has chromium chromium-browser google-chrome || missing="chromium"
has kcat || missing="${missing:+$missing }kcat"
if [ -z "$missing" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
    echo "Missing here: $missing. They are not installed without apt-get and root; their tests are skipped." >&2
    exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    # Another apt-get may be at work. The names are words, so they are not quoted.
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends \
        install $missing >"$log" 2>&1
}
if ! install; then
    # The lists of packages are missing or old.
    if ! apt-get -q -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 || ! install; then
        echo "Could not be installed: $missing: $(tail -n 1 "$log")" >&2
    fi
fi
