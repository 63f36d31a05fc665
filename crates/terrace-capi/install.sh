#!/bin/sh
# Installs the library and its development files below a prefix.
#   install.sh DIRECTORY PREFIX     DIRECTORY holds libleveldb.so.1d, as link.sh leaves it
set -eu
here=$(dirname "$0")
built=$1 prefix=$2
mkdir -p "$prefix/lib/cmake/leveldb" "$prefix/lib/pkgconfig" "$prefix/include"
install -m 644 "$built/libleveldb.so.1d" "$prefix/lib/libleveldb.so.1d"
ln -sf libleveldb.so.1d "$prefix/lib/libleveldb.so"
install -m 644 "$here"/install/*.cmake "$prefix/lib/cmake/leveldb"
install -m 644 "$here/install/leveldb.pc" "$prefix/lib/pkgconfig"
# The licences of this library and of all that it contains.
install -d "$prefix/share/doc/terrace"
install -m 644 "$here/LICENSE-MIT" "$here/LICENSE-APACHE" "$here/THIRD-PARTY-NOTICES.md" "$prefix/share/doc/terrace"
(cd "$here/include" && find . -name '*.h') | while read -r header; do
    mkdir -p "$prefix/include/$(dirname "$header")"
    install -m 644 "$here/include/$header" "$prefix/include/$header"
done
