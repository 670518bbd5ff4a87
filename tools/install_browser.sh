#!/bin/sh
# Makes sure that the browser tests find Chromium: as root on Debian installs it, else prints what to do.
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null && exit 0
fi
echo "matchset: the browser tests need Chromium; install it (Debian: apt install chromium)." >&2
exit 1
