#!/bin/sh
# Makes the shared library of the crate's archive: the distribution's name inside, and the names of symbols.txt to see.
#   link.sh ARCHIVE DIRECTORY
set -eu
here=$(dirname "$0")
archive=$1 directory=$2
mkdir -p "$directory"
# Into place at once: neither a program that runs meanwhile nor another that links sees half of it.
made=$(mktemp -d "$directory/.linking-XXXXXX")
trap 'rm -rf "$made"' EXIT
{
    echo '{ global:'
    sed -e '/^#/d' -e '/^$/d' -e 's/.*/  "&";/' "$here/symbols.txt"
    echo 'local: *; };'
} >"$made/exports"
"${CXX:-c++}" ${CXXFLAGS:-} -shared -Wl,-soname,libleveldb.so.1d -o "$made/libleveldb.so.1d" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-O1 -Wl,-z,relro,-z,now \
    -Wl,--version-script="$made/exports" -lpthread -ldl -lm
ln -s libleveldb.so.1d "$made/libleveldb.so"
mv -f "$made/libleveldb.so.1d" "$made/libleveldb.so" "$directory"
