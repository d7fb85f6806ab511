#!/bin/sh
# Installs Endstop @VERSION@ into ~/.local, or removes it: sh install.sh [--remove]
#
# ENDSTOP_PREFIX    where to install instead of ~/.local
# ENDSTOP_DOWNLOAD  where the files of the release are, if not on its page
set -eu

version=@VERSION@
prefix=${ENDSTOP_PREFIX:-$HOME/.local}
download=${ENDSTOP_DOWNLOAD:-https://github.com/endstop-dev/endstop/releases/download/v$version}

fail() {
    echo "error: $1" >&2
    exit 1
}

remove() {
    rm -f "$prefix/bin/endstop" "$prefix"/share/man/man1/endstop.1 "$prefix"/share/man/man1/endstop-*.1
    rm -f "$prefix/share/bash-completion/completions/endstop"
    rm -f "$prefix/share/zsh/site-functions/_endstop"
    rm -f "$prefix/share/fish/vendor_completions.d/endstop.fish"
    rm -rf "$prefix/share/doc/endstop"
}

fetch() {
    if command -v curl >/dev/null 2>&1; then
        curl -fsSL "$1" -o "$2"
    elif command -v wget >/dev/null 2>&1; then
        wget -q "$1" -O "$2"
    else
        fail "neither curl nor wget is installed"
    fi
}

digest() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1"
    else
        shasum -a 256 "$1"
    fi | cut -d ' ' -f 1
}

# The name of this system's archive.
archive() {
    system=$(uname -s | tr '[:upper:]' '[:lower:]')
    machine=$(uname -m)
    if [ "$machine" = arm64 ]; then machine=aarch64; fi
    if [ "$machine" = amd64 ]; then machine=x86_64; fi
    echo "endstop-$version-$system-$machine"
}

install() {
    name=$(archive)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    fetch "$download/$name.tar.gz" "$work/$name.tar.gz" || fail "cannot fetch $download/$name.tar.gz"
    fetch "$download/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot fetch $download/SHA256SUMS"
    wanted=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' "$work/SHA256SUMS")
    [ -n "$wanted" ] || fail "SHA256SUMS does not list $name.tar.gz"
    [ "$(digest "$work/$name.tar.gz")" = "$wanted" ] || fail "$name.tar.gz has another checksum than SHA256SUMS says"
    tar -xzf "$work/$name.tar.gz" -C "$work"
    # What is installed stays if this one needs another system library.
    "$work/$name/endstop" --version >/dev/null ||
        fail "endstop $version does not start here, so nothing was changed (does it need glibc? see \`ldd --version\`)"
    remove
    mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/doc/endstop" \
        "$prefix/share/bash-completion/completions" "$prefix/share/zsh/site-functions" \
        "$prefix/share/fish/vendor_completions.d"
    cp "$work/$name/completions/endstop.bash" "$prefix/share/bash-completion/completions/endstop"
    cp "$work/$name/completions/_endstop" "$prefix/share/zsh/site-functions/_endstop"
    cp "$work/$name/completions/endstop.fish" "$prefix/share/fish/vendor_completions.d/endstop.fish"
    cp "$work/$name"/man/man1/*.1 "$prefix/share/man/man1/"
    cp "$work/$name"/*LICENSE* "$prefix/share/doc/endstop/"
    cp "$work/$name/endstop" "$prefix/bin/endstop"
    echo "endstop $version is in $prefix/bin"
    case ":$PATH:" in
        *":$prefix/bin:"*) ;;
        *) echo "hint: add $prefix/bin to PATH" ;;
    esac
}

case "${1:-}" in
    "") install ;;
    --remove) remove ;;
    *) fail "unknown argument \`$1\`; usage: sh install.sh [--remove]" ;;
esac
