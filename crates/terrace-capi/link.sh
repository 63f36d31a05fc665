#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Links the crate's archive into libraries with the exported symbols of symbols.txt:
#   libleveldb.so.1d   the shared library, with the distribution's soname
#   libleveldb.so.1    its name on Fedora, Arch and in LevelDB's own builds
#   libleveldb.so      its name for compilers
#   libleveldb.a       the static library: one object, whose other symbols are local
#   libmemenv.a        empty: NewMemEnv is in the library itself
#
#   link.sh ARCHIVE DIRECTORY
set -eu
here=$(dirname "$0")
archive=$1 directory=$2
mkdir -p "$directory"
# Moved into place at the end, so that no running program or concurrent link sees a partial file.
work=$(mktemp -d "$directory/.linking-XXXXXX")
trap 'rm -rf "$work"' EXIT
sed -e '/^#/d' -e '/^$/d' "$here/symbols.txt" >"$work/symbols"
{
    echo '{ global:'
    sed -e 's/.*/  "&";/' "$work/symbols"
    echo 'local: *; };'
} >"$work/exports"
"${CXX:-c++}" ${CXXFLAGS:-} -shared -Wl,-soname,libleveldb.so.1d -o "$work/libleveldb.so.1d" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-O1 -Wl,-z,relro,-z,now \
    -Wl,--version-script="$work/exports" -lpthread -ldl -lm
for name in libleveldb.so libleveldb.so.1; do
    ln -s libleveldb.so.1d "$work/$name"
done

sed -e 's/^/-u /' "$work/symbols" >"$work/roots"
"${LD:-ld}" -r --gc-sections --force-group-allocation @"$work/roots" --whole-archive "$archive" -o "$work/leveldb.o"
# Rust's standard library brings bitcode, which is useless here and invalid after the merge.
"${OBJCOPY:-objcopy}" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd \
    --keep-global-symbols="$work/symbols" "$work/leveldb.o"
"${AR:-ar}" rcs "$work/libleveldb.a" "$work/leveldb.o"
"${AR:-ar}" rcs "$work/libmemenv.a"
mv -f "$work"/lib* "$directory"
