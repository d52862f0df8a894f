#!/usr/bin/env bash
# usage: scripts/python.sh [VENV]
# Builds the Python module as a wheel and installs it into the virtual environment VENV [build-python/venv], which is made if
# there is none: with the system's NumPy. Needs Debian's pybind11-dev, python3-dev, python3-numpy and python3-venv; fetches nothing
# else.
set -euo pipefail
[ $# -le 1 ] && [[ ${1-} != -* ]] || { sed -n 2,5p "$0" >&2; exit 2; }
venv=$(realpath -m "${1:-$(dirname "$0")/../build-python/venv}")
cd "$(dirname "$0")/.."
scripts/packages.sh pybind11-dev python3-dev python3-numpy python3-venv

if [ ! -x "$venv/bin/python" ]; then
  mkdir -p "$(dirname "$venv")"
  # Debian's Python, whose packages these are: another one may come first in the PATH.
  /usr/bin/python3 -m venv --system-site-packages "$venv"
fi
"$venv/bin/python" -B apps/python/wheel_backend.py
"$venv/bin/python" -m pip install --no-index --no-deps --no-build-isolation --force-reinstall --disable-pip-version-check apps/python
"$venv/bin/python" -c "import numpy" || echo "Please install NumPy into $venv, too." >&2
cd /
"$venv/bin/python" -c "import tapegrad; print('tapegrad', tapegrad.__version__, 'is in', '$venv')"
