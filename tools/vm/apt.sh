#!/bin/bash
# To be sourced. Fetches Debian packages of another architecture without changing this machine's packages. The apt state is in a
# separate directory with an empty list of installed packages, so apt resolves all dependencies, and does not use the host's dpkg.
#
#   private_apt ARCH STATE      from now on `apt` is apt-get with that state, and APT_CONFIG names its configuration
#   unpack DIR DEB...           the packages' files into DIR

private_apt() {
    local arch=$1 state=$2
    rm -rf "$state/cache"
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    cat >"$state/conf" <<END
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
APT::Sandbox::User "root";
Dir::State "$state";
Dir::State::Lists "$state/lists";
Dir::State::Status "$state/status";
Dir::Cache "$state/cache";
END
    export APT_CONFIG=$state/conf
}

apt() { LC_ALL=C apt-get -q -o Dpkg::Use-Pty=0 "$@"; }

unpack() {
    local dir=$1 deb
    shift
    for deb in "$@"; do dpkg-deb -x "$deb" "$dir" || return 1; done
}
