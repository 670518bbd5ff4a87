#!/bin/sh
# Prints in one sentence what to install if something is missing: check_machine.sh PYTHON CXX
# CXX may be several words ("ccache g++"), so it is called without quotes.
python=$1
cxx=$2

stop() {
  echo "matchset: $1" >&2
  exit 1
}

command -v "$python" >/dev/null 2>&1 ||
  stop "Python 3.11 or later is needed; install it (Debian: apt install python3 python3-venv), or name yours: make PYTHON=/path/to/python3."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  stop "Python 3.11 or later is needed and $python is $("$python" -V 2>&1); install a newer one and name it: make PYTHON=python3.12."
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  stop "Python's venv module is missing; install it (Debian: apt install python3-venv)."
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
  stop "Python's C headers are missing; install them (Debian: apt install python3-dev)."
command -v "${cxx%% *}" >/dev/null 2>&1 ||
  stop "a C++20 compiler is needed; install one (Debian: apt install g++), or name yours: make CXX=clang++."
echo 'int main() { return [](auto x) requires true { return x; }(0); }' |
  $cxx -std=c++20 -x c++ -fsyntax-only - 2>/dev/null ||
  stop "a C++20 compiler is needed and $cxx is not one ($($cxx --version | head -n 1)); install g++ 11 or later, or name yours: make CXX=g++-12."
