#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the packages of Debian:
#   terrace-dropin   the shared library in a directory of its own, /usr/lib/terrace, and the program `with-terrace`, which
#                    runs another program with it; no effect on programs that are started without `with-terrace`
#   libterrace-dev   libterrace.a with its header and its pkg-config file, for programs in C
#   terrace          the program, its manual pages, its completions, and the unit of systemd for servers
# No package replaces a file of another package.
#   deb.sh LIBRARIES VERSION DIRECTORY [PROGRAM]
# writes DIRECTORY/NAME_VERSION_ARCHITECTURE.deb for each and prints the paths. Without PROGRAM, terrace is left out.
# For another architecture: ARCHITECTURE, MULTIARCH, STRIP, and an emulator in RUNNER.
# DEBFULLNAME and DEBEMAIL name the maintainer of the packages, as for other tools of Debian.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
libraries=$1 version=$2 directory=$3 program=${4-}
architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
multiarch=${MULTIARCH:-$(dpkg-architecture --query DEB_HOST_MULTIARCH 2>/dev/null || cc -print-multiarch)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$directory"

# depends ROOT FILE DEFAULT: packages of the shared libraries that FILE needs, with the versions of its symbols. The tool
# for them knows the libraries of this architecture. Otherwise the version of the C library is added to DEFAULT.
depends() {
    found=
    if command -v dpkg-shlibdeps >/dev/null; then
        mkdir -p "$work/debian"
        echo "Source: terrace" >"$work/debian/control"
        found=$(cd "$work" && dpkg-shlibdeps -O "$1/$2" 2>/dev/null) || found=
    fi
    [ -z "$found" ] || { echo "${found#shlibs:Depends=}"; return; }
    newest=$(readelf --version-info "$1/$2" | grep -o 'GLIBC_[0-9][0-9.]*' | sort -Vu | tail -1)
    echo "$3" | sed "s/libc6/libc6 (>= ${newest#GLIBC_})/"
}

# build NAME SECTION DEPENDS: packs $work/NAME. The description comes from the standard input.
build() {
    root=$work/$1
    documents=$root/usr/share/doc/$1
    install -d "$documents"
    install -m 644 "$here/LICENSE-APACHE" "$here/THIRD-PARTY.md" "$documents"
    {
        echo "Terrace is under the MIT licence, below, or under the Apache licence 2.0, in LICENSE-APACHE."
        echo "THIRD-PARTY.md lists the code of other projects in the package, with its licences."
        echo
        cat "$here/LICENSE-MIT"
    } >"$documents/copyright"
    mkdir "$root/DEBIAN"
    {
        cat <<END
Package: $1
Version: $version
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-$(id -un)} <${DEBEMAIL:-$(id -un)@$(uname -n)}>
Section: $2
Priority: optional
Installed-Size: $(du -k -s "$root/usr" | cut -f 1)
Depends: $3
END
        cat
    } >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
    dpkg-deb --root-owner-group --build "$root" "$directory" >/dev/null
    echo "$directory/$1_${version}_$architecture.deb"
}

root=$work/terrace-dropin
install -D -m 644 "$libraries/libleveldb.so.1d" "$root/usr/lib/terrace/libleveldb.so.1d"
ln -s libleveldb.so.1d "$root/usr/lib/terrace/libleveldb.so.1"
install -D -m 755 "$here/deb/with-terrace" "$root/usr/bin/with-terrace"
install -d "$root/usr/share/man/man1"
gzip -9n <"$here/deb/with-terrace.1" >"$root/usr/share/man/man1/with-terrace.1.gz"
build terrace-dropin libs \
    "$(depends "$root" usr/lib/terrace/libleveldb.so.1d 'libc6, libgcc-s1, libstdc++6')" <<'END'
Description: Terrace in place of LevelDB, for single programs
 A key-value store with LevelDB's C and C++ interfaces and LevelDB's files.
 The command "with-terrace PROGRAM" runs a program that was built for LevelDB
 with Terrace. The library of the package libleveldb1d stays in place for all
 other programs.
END

root=$work/libterrace-dev
install -D -m 644 "$libraries/libterrace.a" "$root/usr/lib/$multiarch/libterrace.a"
install -D -m 644 "$here/include/terrace/terrace.h" "$root/usr/include/terrace/terrace.h"
# The types of LevelDB's interface in C. The header finds them here, and the package libleveldb-dev keeps its own.
install -D -m 644 -t "$root/usr/include/terrace/leveldb" "$here/include/leveldb/c.h" "$here/include/leveldb/export.h"
install -D -m 644 "$here/include/leveldb/LICENSE" "$root/usr/share/doc/libterrace-dev/LICENSE-LEVELDB"
install -d "$root/usr/lib/$multiarch/pkgconfig"
sed -e "s/@VERSION@/$version/" -e "s/@MULTIARCH@/$multiarch/" "$here/deb/terrace.pc" \
    >"$root/usr/lib/$multiarch/pkgconfig/terrace.pc"
build libterrace-dev libdevel libc6-dev <<'END'
Description: Terrace for programs in C, as a static library
 A key-value store that reads and writes LevelDB's files. The header
 terrace/terrace.h declares its functions, whose names begin with terrace_.
 The library has no symbol of LevelDB, so a program may use both.
END

[ -n "$program" ] || exit 0
root=$work/terrace
install -d "$root/usr/bin" "$root/usr/share/man/man1"
"${STRIP:-strip}" --strip-unneeded -o "$root/usr/bin/terrace" "$program"
# An emulator runs the program of another architecture: its words are several arguments.
# shellcheck disable=SC2086
${RUNNER-} "$program" man --dir "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*
for completion in bash:bash-completion/completions/terrace zsh:zsh/vendor-completions/_terrace \
    fish:fish/vendor_completions.d/terrace.fish; do
    file=$root/usr/share/${completion#*:}
    install -d "$(dirname "$file")"
    # shellcheck disable=SC2086
    ${RUNNER-} "$program" completions "${completion%%:*}" >"$file"
done
install -D -m 644 "$here/deb/terrace@.service" "$root/lib/systemd/system/terrace@.service"
build terrace database "$(depends "$root" usr/bin/terrace 'libc6, libgcc-s1, libstdc++6')" <<'END'
Description: key-value store with LevelDB's files: program and server
 The command "terrace" reads, changes, checks, repairs, copies and measures
 LevelDB databases. "terrace serve" serves one to Redis clients; the unit
 terrace@NAME does so for /var/lib/terrace/NAME.
END
