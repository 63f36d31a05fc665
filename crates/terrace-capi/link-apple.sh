#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Links the crate's archive into the library for macOS:
#   libleveldb.1.dylib   LevelDB's C and C++ interfaces, and the functions of include/terrace/terrace.h
#   libleveldb.dylib     its name for compilers
#
# The linker of zig knows no list of exported symbols, so the library also exports the names of Rust's standard library.
#   link-apple.sh ARCHIVE DIRECTORY TARGET     TARGET is aarch64-macos.11.0 or x86_64-macos.11.0, with the oldest
#                                              version of macOS. CXX is zig's compiler by default.
set -eu
here=$(dirname "$0")
archive=$1 directory=$2 target=$3
mkdir -p "$directory"
work=$(mktemp -d "$directory/.linking-XXXXXX")
trap 'rm -rf "$work"' EXIT
# The linker of zig has no second names. A jump is one.
case $target in
aarch64-*) jump=b ;;
*) jump=jmp ;;
esac
sed -n 's/^\([a-z0-9_]*\) = \([a-z0-9_]*\)$/\1 \2/p' "$here/symbols.txt" | while read -r name function; do
    printf '.globl _%s\n.p2align 2\n_%s: %s _%s\n' "$name" "$name" "$jump" "$function"
done >"$work/names.s"
${CXX:-python3 -m ziglang c++} -target "$target" -dynamiclib -install_name @rpath/libleveldb.1.dylib \
    -Wl,-force_load,"$archive" "$work/names.s" -Wl,-dead_strip -o "$work/libleveldb.1.dylib"
ln -s libleveldb.1.dylib "$work/libleveldb.dylib"
mv -f "$work"/libleveldb* "$directory"
