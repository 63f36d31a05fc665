#!/bin/sh
# Links the crate's archive into the shared library, with the distribution's soname and the exported symbols of symbols.txt.
#   link.sh ARCHIVE DIRECTORY
set -eu
here=$(dirname "$0")
archive=$1 directory=$2
mkdir -p "$directory"
# Moved into place at the end, so that no running program or concurrent link sees a partial file.
work=$(mktemp -d "$directory/.linking-XXXXXX")
trap 'rm -rf "$work"' EXIT
{
    echo '{ global:'
    sed -e '/^#/d' -e '/^$/d' -e 's/.*/  "&";/' "$here/symbols.txt"
    echo 'local: *; };'
} >"$work/exports"
"${CXX:-c++}" ${CXXFLAGS:-} -shared -Wl,-soname,libleveldb.so.1d -o "$work/libleveldb.so.1d" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-O1 -Wl,-z,relro,-z,now \
    -Wl,--version-script="$work/exports" -lpthread -ldl -lm
ln -s libleveldb.so.1d "$work/libleveldb.so"
mv -f "$work/libleveldb.so.1d" "$work/libleveldb.so" "$directory"
