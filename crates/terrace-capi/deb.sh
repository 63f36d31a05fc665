#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds a package of Debian with the shared library in a directory of its own, /usr/lib/terrace, and the program
# `with-terrace`, which runs another program with it. The package replaces no file of another package, and has no effect on
# programs that are started without `with-terrace`.
#   deb.sh LIBRARIES VERSION DIRECTORY    writes DIRECTORY/terrace-dropin_VERSION_ARCHITECTURE.deb and prints its path
# DEBFULLNAME and DEBEMAIL name the maintainer of the package, as for other tools of Debian.
set -eu
umask 022
here=$(dirname "$0")
libraries=$1 version=$2 directory=$3
name=terrace-dropin
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

install -D -m 644 "$libraries/libleveldb.so.1d" "$root/usr/lib/terrace/libleveldb.so.1d"
ln -s libleveldb.so.1d "$root/usr/lib/terrace/libleveldb.so.1"
install -D -m 755 "$here/deb/with-terrace" "$root/usr/bin/with-terrace"
install -d "$root/usr/share/man/man1"
gzip -9n <"$here/deb/with-terrace.1" >"$root/usr/share/man/man1/with-terrace.1.gz"
documents=$root/usr/share/doc/$name
install -d "$documents"
install -m 644 "$here/LICENSE-APACHE" "$here/THIRD-PARTY.md" "$documents"
{
    echo "Terrace is under the MIT licence, below, or under the Apache licence 2.0, in LICENSE-APACHE."
    echo "THIRD-PARTY.md lists the code of other projects in the library, with its licences."
    echo
    cat "$here/LICENSE-MIT"
} >"$documents/copyright"

# Packages of the shared libraries that the library needs, with the versions of its symbols if the tool for them is installed.
depends="libc6, libgcc-s1, libstdc++6"
if command -v dpkg-shlibdeps >/dev/null; then
    mkdir -p "$work/debian"
    echo "Source: $name" >"$work/debian/control"
    found=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/lib/terrace/libleveldb.so.1d" 2>/dev/null) &&
        depends=${found#shlibs:Depends=}
fi
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: $name
Version: $version
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-$(id -un)} <${DEBEMAIL:-$(id -un)@$(uname -n)}>
Section: libs
Priority: optional
Installed-Size: $(du -k -s "$root/usr" | cut -f 1)
Depends: $depends
Description: Terrace in place of LevelDB, for single programs
 A key-value store with LevelDB's C and C++ interfaces and LevelDB's files.
 The command "with-terrace PROGRAM" runs a program that was built for LevelDB
 with Terrace. The library of the package libleveldb1d stays in place for all
 other programs.
END
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
mkdir -p "$directory"
dpkg-deb --root-owner-group --build "$root" "$directory" >/dev/null
echo "$directory/${name}_${version}_$architecture.deb"
