#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Links the crate's archive into libraries with the exported symbols of symbols.txt:
#   libleveldb.so.1d   the shared library, with the distribution's soname
#   libleveldb.so.1    its name on Fedora, Arch and in LevelDB's own builds
#   libleveldb.so      its name for compilers
#   libleveldb.a       the static library: one object, whose other symbols are local
#   libmemenv.a        empty: NewMemEnv is in the library itself
#   libterrace.a       the C functions with terrace_ names only, for programs that may also link LevelDB
#
#   link.sh ARCHIVE DIRECTORY
set -eu
here=$(dirname "$0")
archive=$1 directory=$2
mkdir -p "$directory"
# Moved into place at the end, so that no running program or concurrent link sees a partial file.
work=$(mktemp -d "$directory/.linking-XXXXXX")
trap 'rm -rf "$work"' EXIT
sed -e '/^#/d' -e '/^$/d' -e 's/ =.*//' "$here/symbols.txt" >"$work/symbols"
sed -n 's/^\([a-z_]*\) = \([a-z_]*\)$/--defsym=\1=\2/p' "$here/symbols.txt" >"$work/aliases"
{
    echo '{ global:'
    sed -e 's/.*/  "&";/' "$work/symbols"
    echo 'local: *; };'
} >"$work/exports"
"${CXX:-c++}" ${CXXFLAGS:-} -shared -Wl,-soname,libleveldb.so.1d -o "$work/libleveldb.so.1d" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,-O1 -Wl,-z,relro,-z,now \
    -Wl,--version-script="$work/exports" -Wl,@"$work/aliases" -lpthread -ldl -lm
for name in libleveldb.so libleveldb.so.1; do
    ln -s libleveldb.so.1d "$work/$name"
done

# merge SYMBOLS OBJECT [LD-ARGUMENT..]: makes one object of the archive, with SYMBOLS and the code that they need.
# Rust's standard library brings bitcode and a table of addresses, which are useless here and invalid after the merge.
merge() {
    symbols=$1 object=$2
    shift 2
    sed -e 's/^/-u /' "$symbols" >"$work/roots"
    "${LD:-ld}" -r --gc-sections --force-group-allocation @"$work/roots" "$@" --whole-archive "$archive" -o "$object"
    "${OBJCOPY:-objcopy}" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd --remove-section=.llvm_addrsig \
        "$object"
}
merge "$work/symbols" "$work/leveldb.o" @"$work/aliases"
"${OBJCOPY:-objcopy}" --keep-global-symbols="$work/symbols" "$work/leveldb.o"
"${AR:-ar}" rcs "$work/libleveldb.a" "$work/leveldb.o"
"${AR:-ar}" rcs "$work/libmemenv.a"

# The functions of LevelDB's interface have their second names in this library.
sed -n -e 's/^terrace_.* = //p' -e '/^terrace_[a-z_]*$/p' "$here/symbols.txt" >"$work/c-functions"
sed -n 's/^\([a-z_]*\) = \([a-z_]*\)$/\2 \1/p' "$here/symbols.txt" >"$work/second-names"
grep '^terrace_' "$work/symbols" >"$work/terrace-symbols"
merge "$work/c-functions" "$work/terrace.o"
"${OBJCOPY:-objcopy}" --redefine-syms="$work/second-names" "$work/terrace.o"
"${OBJCOPY:-objcopy}" --keep-global-symbols="$work/terrace-symbols" --strip-unneeded "$work/terrace.o"
"${AR:-ar}" rcs "$work/libterrace.a" "$work/terrace.o"
mv -f "$work"/lib* "$directory"
