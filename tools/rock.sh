#!/bin/bash
# make rock: installs the module in every possible way, without network:
#
#   luarocks make into a tree, for Lua 5.1, which is also LuaJIT's, and 5.4
#   the rock that luarocks pack makes of it, installed with an ordinary user's --local
#   a source rock, built by that user
#   make install with PREFIX, and with DESTDIR
#
# In each installation luaperf runs all its commands over a script: from another directory, as an ordinary user (nobody, if root
# runs this), with nothing in the environment that leads to the module. After removal, nothing may remain.
#
#   PERF_TOTALS=FILE     gets "rock passed failed skipped", for .ci/run
#   PERF_FAILED=FILE     gets a line for each failure: see tools/failed.sh
set -u
umask 022 # an ordinary user installs the rock and runs the script
make=${MAKE:-make}
rockspec=$(ls rockspec/*.rockspec)
rock=$(basename "$rockspec" .rockspec) # lua-perf-1.2.3-1
version=${rock%-*}
MAKEFLAGS="-s -j$(nproc)"
export MAKEFLAGS
unset LUA LUA_PATH LUA_CPATH LUA_INIT BUILD
for lua in luajit lua5.1 lua5.4; do
    if (cd / && $lua -e 'require "perf.core"' 2>/dev/null); then
        echo "rock: $lua has lua-perf already, which luaperf would find first: remove it (make uninstall LUA=$lua)" >&2
        exit 1
    fi
done
pass=0 fail=0
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
trap 'exit 1' INT TERM HUP
mkdir "$top/home" "$top/home/work"
chmod 755 "$top"

user=()
if [ "$(id -u)" -eq 0 ]; then
    chown -R 65534:65534 "$top/home"
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
# Whether this user may count. Debian's kernels have level 3, at which only root can count.
runs_as=("${user[@]}")
if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 2 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "rock: skipped: kernel.perf_event_paranoid above 2 leaves counting to root"
        [ -z "${PERF_TOTALS:-}" ] || echo "rock 0 0 1" >>"$PERF_TOTALS"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    echo "kernel.perf_event_paranoid is above 2: what is installed runs as root here"
    runs_as=()
fi

cat >"$top/script.lua" <<'END'
local function busy(n)
  local t = {}
  for i = 1, n do t[i] = tostring(i) end
  return #t
end
print("ran", arg[1], busy(3e5))
os.exit(3)
END

# as_user WORD...: runs the command in the user's directory, with a new environment
as_user() { (cd "$top/home/work" && "${user[@]}" env -i PATH="$PATH" HOME="$top/home" MAKEFLAGS="$MAKEFLAGS" "$@"); }

# checked NAME COMMAND...: one check that must succeed
checked() {
    local name=$1
    shift
    if "$@" >"$top/log" 2>&1; then
        pass=$((pass + 1))
        echo "$name: ok"
    else
        fail=$((fail + 1))
        echo "$name: FAILED"
        tail -n 30 "$top/log"
        tail -n 2 "$top/log" | tools/failed.sh add rock "" "" "$name"
    fi
}

# expect FOUND STATUS WORD...: the command ends with STATUS, and each line of FOUND, a regular expression, matches its output
expect() {
    local found=$1 status=$2 got line
    shift 2
    (cd "$top/home/work" && exec "${runs_as[@]}" env -i PATH="$PATH" HOME="$top/home" ${LUA:+LUA=$LUA} timeout 60 "$@") \
        >"$top/output" 2>&1
    got=$?
    cat "$top/output"
    [ $got -eq "$status" ] || { echo "$*: status $got, not $status"; return 1; }
    while read -r line; do
        grep -Eq -- "$line" "$top/output" || { echo "$*: no line has $line"; return 1; }
    done <<<"$found"
}

# works LUAPERF INTERPRETER: runs all its commands
works() {
    local luaperf=$1 ran=$'^ran\tword\t300000$'
    rm -rf "$top/home/work/profile.json"
    expect "$ran"$'\n'"[1-9][0-9.,]* +m?s +task-clock"$'\n'"[1-9][0-9,]+ +page-faults"$'\n'"elapsed" \
        3 "$luaperf" stat -e task-clock,page-faults ../../script.lua word &&
        expect "$ran"$'\n'"samples of task-clock in profile.json" 3 "$luaperf" record -e task-clock -o profile.json ../../script.lua word &&
        expect $'^task-clock: .* samples\nscript.lua:3 busy$\nbusy .*script.lua:1$' 0 "$luaperf" report profile.json &&
        expect $'^task-clock .*software\n^page-faults .*software' 0 "$luaperf" list &&
        expect "^lua-perf ${version##*-} on Linux"$'\n'"interpreter +$2"$'\n'"optional parts" 0 "$luaperf" doctor
}

# has_pages DIRECTORY: the manual page and the completions are there, and everybody may read them
has_pages() {
    local page
    for page in man/man1/luaperf.1 bash-completion/completions/luaperf zsh/site-functions/_luaperf \
        fish/vendor_completions.d/luaperf.fish; do
        grep -Eq "call.?-graph" "$1/$page" && [ -n "$(find "$1/$page" -perm -444)" ] || { echo "$1/$page"; return 1; }
    done
}

# empty DIRECTORY: it has no files except LuaRocks's own list of rocks
empty() {
    local left
    left=$(find "$1" -mindepth 1 ! -name 'manifest*' ! -path "$1/lib" ! -path "$1/lib/luarocks" ! -path "$1/lib/luarocks/rocks-*" 2>&1)
    [ -z "$left" ] || { echo "left in $1: $left"; return 1; }
}

# --- luarocks -------------------------------------------------------------------------------------

rocks() { luarocks --lua-version "$v" "$@"; }
local_rocks() { as_user luarocks --lua-version "$v" --local "$@"; }
pack() { (cd "$top" && rocks "$@"); }
removed() { "$1" "${@:3}" remove lua-perf && empty "$2"; }

declare -A first=([5.1]=LuaJIT [5.4]="Lua 5.4") # the interpreter that luaperf takes if none is named
for v in 5.1 5.4; do
    at=$top/$v
    checked "luarocks make for $v" rocks --tree "$at" make --deps-mode=none "$rockspec" || continue
    checked "luaperf in the tree of $v" works "$at/bin/luaperf" "${first[$v]}"
    [ $v != 5.1 ] || LUA=lua5.1 checked "luaperf there under lua5.1" works "$at/bin/luaperf" "Lua 5.1"
    checked "the pages in the tree of $v" has_pages "$at/lib/luarocks/rocks-$v/lua-perf/${rock#lua-perf-}/share"
    checked "luarocks pack for $v" pack --tree "$at" pack lua-perf
    checked "luarocks remove for $v" removed rocks "$at" --tree "$at"
    checked "luarocks install --local for $v" local_rocks install --deps-mode=none "$top/$rock".linux-*.rock
    checked "luaperf in --local of $v" works "$top/home/.luarocks/bin/luaperf" "${first[$v]}"
    checked "luarocks remove --local for $v" removed local_rocks "$top/home/.luarocks"
    rm -rf "$top"/*.rock "$top/home/.luarocks"
done

# A source rock contains an archive, for which these files are enough.
mkdir "$top/$rock"
cp -r Makefile mk csrc lua bin LICENSE "$top/$rock"
tar -C "$top" -czf "$top/$rock.tar.gz" "$rock"
sed "s|^  url = .*|  url = \"file://$top/$rock.tar.gz\", dir = \"$rock\",|" "$rockspec" >"$top/$rock.rockspec"
checked "luarocks pack of a source rock" pack pack "$rock.rockspec"
mv "$top/$rock.tar.gz" "$top/gone" # so that the module is in the rock only
checked "luarocks build of it" local_rocks install --deps-mode=none "$top/$rock.src.rock" CFLAGS=-O0
checked "luaperf of it" works "$top/home/.luarocks/bin/luaperf" "Lua $v"

# --- make install ---------------------------------------------------------------------------------

# With a strict umask of the installing user, other users could not read the files.
install_to() { (umask 077 && "$make" "$@"); }
prefix=PREFIX=$top/prefix
mkdir "$top/prefix"
for lua in luajit lua5.4; do
    checked "make install for $lua" install_to LUA=$lua "$prefix" install
done
checked "its pages" has_pages "$top/prefix/share"
LUA=luajit checked "luaperf of it under luajit" works "$top/prefix/bin/luaperf" LuaJIT
# It failed with a line of rm for each file.
kept() {
    local said
    chmod 555 "$1"
    said=$("$make" LUA=lua5.4 "$prefix" uninstall 2>&1)
    chmod 755 "$1"
    [[ $said == "No permission to remove what is in $1: run make uninstall as root"* ]]
}
if [ "$(id -u)" != 0 ]; then checked "make uninstall without permission" kept "$top/prefix/share/lua/5.4/perf"; fi
checked "make uninstall for luajit" "$make" LUA=luajit "$prefix" uninstall
checked "the pages of the other" has_pages "$top/prefix/share"
checked "luaperf of the other" works "$top/prefix/bin/luaperf" "Lua 5.4"
checked "make uninstall for lua5.4" "$make" LUA=lua5.4 "$prefix" uninstall
checked "nothing is left" test ! -e "$top/prefix"

# It failed at the first file, without a word about root or PREFIX.
refused() { "$make" LUA=lua5.4 "PREFIX=$1" install 2>&1 | grep "No permission to install in $1/share/.*: .* PREFIX="; }
if [ "$(id -u)" != 0 ]; then checked "make install without permission" refused /proc/1; fi

stage=("DESTDIR=$top/stage" PREFIX=/opt/perf LUA=lua5.4)
checked "make install with DESTDIR" install_to "${stage[@]}" install
checked "luaperf of it" works "$top/stage/opt/perf/bin/luaperf" "Lua 5.4"
checked "nothing is outside of it" test ! -e /opt/perf
checked "make uninstall with DESTDIR" "$make" "${stage[@]}" uninstall
checked "nothing is left" test ! -e "$top/stage"

[ -z "${PERF_TOTALS:-}" ] || echo "rock $pass $fail 0" >>"$PERF_TOTALS"
echo "$pass passed, $fail failed, 0 skipped"
[ "$fail" -eq 0 ]
