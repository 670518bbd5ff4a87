#!/usr/bin/env bash
# Installs a wheel into a fresh environment and tests it there: check_wheel.sh PYTHON WHEEL [PYTEST-ARGUMENT ...]
# PATH has no compiler and no CMake, so nothing can be built; the tests are copied, so that the checkout is not imported.
set -euo pipefail
python=$1 wheel=$(realpath "$2")
shift 2
root=$(realpath "$(dirname "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -m venv "$folder/venv"
mkdir "$folder/bin"
for path in /usr/local/bin/* /usr/bin/* /bin/*; do
  case "${path##*/}" in
    cc | c++ | gcc* | g++* | clang* | cmake* | ninja* | make | ld | ld.* | as | *-gcc* | *-g++* | *-ld*) ;;
    *) [ -e "$folder/bin/${path##*/}" ] || ln -s "$path" "$folder/bin/" ;;
  esac
done
export PATH="$folder/venv/bin:$folder/bin"
for name in cc c++ gcc g++ clang++ cmake; do
  ! command -v $name || { echo "matchset: $name is still on the path" >&2; exit 1; }
done

cd "$folder"
pip install --quiet --upgrade "pip>=25.1"
started=$(date +%s.%N)
pip install --quiet --only-binary :all: "$wheel[serve,report]"
echo "installed in $(printf '%.1f' "$(python -c "import time; print(time.time() - $started)")") s," \
  "$(du -sm venv | cut -f 1) MB with all it needs"
cp -r "$root"/*.md "$root"/{pyproject.toml,benchmarks,deploy,docs,tests,tools} .
pip install --quiet --only-binary :all: --group test
python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider "$@"
