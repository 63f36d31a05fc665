#!/bin/sh
# Makes the shared library of the crate's archive: the distribution's name inside, and the names of symbols.txt to see.
#   link.sh ARCHIVE DIRECTORY
set -eu
here=$(dirname "$0")
archive=$1 directory=$2
mkdir -p "$directory"
{
    echo '{ global:'
    sed -e '/^#/d' -e '/^$/d' -e 's/.*/  "&";/' "$here/symbols.txt"
    echo 'local: *; };'
} >"$directory/exports.map"
# Into place at once, so that a program that runs meanwhile never sees half of it.
"${CXX:-c++}" ${CXXFLAGS:-} -shared -Wl,-soname,libleveldb.so.1d -o "$directory/.libleveldb.so.1d" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-O1 -Wl,-z,relro,-z,now \
    -Wl,--version-script="$directory/exports.map" -lpthread -ldl -lm
mv "$directory/.libleveldb.so.1d" "$directory/libleveldb.so.1d"
ln -sf libleveldb.so.1d "$directory/libleveldb.so"
