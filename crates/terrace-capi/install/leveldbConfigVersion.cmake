# SPDX-License-Identifier: MIT OR Apache-2.0
# Version of the LevelDB interfaces. Newer versions have options that programs built for 1.23 do not know, so
# another major version, or a later minor one, is rejected.

set(PACKAGE_VERSION "1.23.0")

if(PACKAGE_FIND_VERSION_MAJOR AND NOT PACKAGE_FIND_VERSION_MAJOR STREQUAL "1")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
elseif(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()

# The library is for one size of pointers.
if(CMAKE_SIZEOF_VOID_P AND NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(PACKAGE_VERSION "${PACKAGE_VERSION} (64 bit)")
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
endif()
