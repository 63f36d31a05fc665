#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the libraries and their development files below a prefix, and the program with its manual pages and completions.
#   install.sh LIBRARIES PREFIX [PROGRAM]    LIBRARIES is the directory that link.sh wrote
#   install.sh --uninstall PREFIX
# PREFIX/share/terrace/installed lists the installed files, and the directories that were created for them.
# An existing file of another package is not replaced, unless FORCE=1.
set -eu
umask 022
here=$(dirname "$0")
list=share/terrace/installed

# Removes the files of the list $1, and the listed directories that are empty.
remove() {
    while read -r path; do
        case $path in
        */) rmdir "$prefix/$path" 2>/dev/null || : ;;
        *) rm -f "$prefix/$path" ;;
        esac
    done <"$1"
}

if [ "$1" = --uninstall ]; then
    prefix=$2
    [ -f "$prefix/$list" ] || { echo "uninstall: no installation below $prefix: no $prefix/$list" >&2; exit 1; }
    copy=$(mktemp)
    trap 'rm -f "$copy"' EXIT
    cp "$prefix/$list" "$copy"
    remove "$copy"
    exit
fi

libraries=$1 prefix=$2 program=${3-}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/tree

install -d "$tree/lib/cmake/leveldb" "$tree/lib/pkgconfig" "$tree/share/doc/terrace"
install -m 644 "$libraries/libleveldb.so.1d" "$libraries/libleveldb.a" "$libraries/libmemenv.a" \
    "$libraries/libterrace.a" "$tree/lib"
for name in libleveldb.so libleveldb.so.1; do
    ln -s libleveldb.so.1d "$tree/lib/$name"
done
install -m 644 "$here"/install/*.cmake "$tree/lib/cmake/leveldb"
install -m 644 "$here/install/leveldb.pc" "$tree/lib/pkgconfig"
(cd "$here/include" && find . -name '*.h') | while read -r header; do
    install -D -m 644 "$here/include/$header" "$tree/include/$header"
done
# The licences of these files and of all code that they contain.
install -m 644 "$here/LICENSE-MIT" "$here/LICENSE-APACHE" "$here/THIRD-PARTY.md" "$tree/share/doc/terrace"
install -m 644 "$here/include/leveldb/LICENSE" "$tree/share/doc/terrace/LICENSE-LEVELDB"
if [ -n "$program" ]; then
    install -D -m 755 "$program" "$tree/bin/terrace"
    install -d "$tree/share/man/man1"
    "$program" man --dir "$tree/share/man/man1"
    for completion in bash:bash-completion/completions/terrace zsh:zsh/site-functions/_terrace \
        fish:fish/vendor_completions.d/terrace.fish; do
        file=$tree/share/${completion#*:}
        install -d "$(dirname "$file")"
        "$program" completions "${completion%%:*}" >"$file"
    done
fi

(cd "$tree" && find . ! -type d) | sed 's|^\./||' | LC_ALL=C sort >"$stage/files"
while read -r path; do
    if [ -e "$prefix/$path" ] || [ -L "$prefix/$path" ]; then
        grep -qxF "$path" "$prefix/$list" 2>/dev/null || echo "  $prefix/$path"
    fi
done <"$stage/files" >"$stage/foreign"
if [ -s "$stage/foreign" ] && [ "${FORCE-}" != 1 ]; then
    {
        echo "install: these files belong to another installation, such as the package libleveldb-dev:"
        head -n 5 "$stage/foreign"
        echo "install: nothing was installed: choose another PREFIX, or replace all $(wc -l <"$stage/foreign") files with FORCE=1"
    } >&2
    exit 1
fi

# Files of the previous installation, which may have had others. Its directories stay in the list.
: >"$stage/created"
if [ -f "$prefix/$list" ]; then
    grep '/$' "$prefix/$list" >"$stage/created" || :
    grep -v '/$' "$prefix/$list" >"$stage/old" || :
    remove "$stage/old"
fi
echo "$list" >>"$stage/files"
# A directory that does not exist yet, and its parents, innermost first.
while read -r path; do
    directory=$(dirname "$path")
    while [ "$directory" != . ] && [ ! -d "$prefix/$directory" ]; do
        echo "$directory/"
        directory=$(dirname "$directory")
    done
done <"$stage/files" >>"$stage/created"
mkdir -p "$prefix/share/terrace"
while read -r path; do
    [ "$path" = "$list" ] && continue
    mkdir -p "$prefix/$(dirname "$path")"
    cp -P --remove-destination "$tree/$path" "$prefix/$path"
done <"$stage/files"
{
    cat "$stage/files"
    LC_ALL=C sort -ru "$stage/created"
} >"$stage/list"
install -m 644 "$stage/list" "$prefix/$list"
