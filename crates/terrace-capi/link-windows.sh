#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Links the crate's archive into the library for Windows, which exports the C functions of symbols.txt:
#   leveldb.dll        the library
#   libleveldb.dll.a   its import library for GNU's and LLVM's linkers
#   leveldb.lib        the same for Microsoft's linker
#   leveldb.def        the list of exports
#
#   link-windows.sh ARCHIVE DIRECTORY        PREFIX is that of the compiler, x86_64-w64-mingw32- by default
set -eu
here=$(dirname "$0")
archive=$1 directory=$2
prefix=${PREFIX:-x86_64-w64-mingw32-}
mkdir -p "$directory"
work=$(mktemp -d "$directory/.linking-XXXXXX")
trap 'rm -rf "$work"' EXIT
{
    echo 'LIBRARY leveldb.dll'
    echo 'EXPORTS'
    # The C++ interface has other names and layouts on Windows.
    sed -n -e 's/^\(leveldb_[a-z0-9_]*\)$/  \1/p' -e 's/^\(terrace_[a-z0-9_]*\)$/  \1/p' \
        -e 's/^\(terrace_[a-z0-9_]*\) = \(leveldb_[a-z0-9_]*\)$/  \1 = \2/p' "$here/symbols.txt"
} >"$work/leveldb.def"
# Without them, the linker would take no object of the archive. All objects would define functions of Windows twice.
sed -n -e 's/^  \([a-z0-9_]*\)$/-Wl,-u,\1/p' -e 's/^  [a-z0-9_]* = \([a-z0-9_]*\)$/-Wl,-u,\1/p' "$work/leveldb.def" >"$work/roots"
"${prefix}gcc" -shared -o "$work/leveldb.dll" "$work/leveldb.def" @"$work/roots" "$archive" \
    -Wl,--gc-sections -Wl,-O1 -Wl,-s -static-libgcc -lws2_32 -luserenv -lntdll -ladvapi32 -lbcrypt -lole32
"${prefix}dlltool" --input-def "$work/leveldb.def" --dllname leveldb.dll --output-lib "$work/libleveldb.dll.a"
cp "$work/libleveldb.dll.a" "$work/leveldb.lib"
mv -f "$work"/*leveldb* "$directory"
