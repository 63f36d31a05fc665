# SPDX-License-Identifier: MIT OR Apache-2.0
# Terrace's library as the package that users of LevelDB look for:
#   find_package(leveldb REQUIRED)
#   target_link_libraries(program leveldb::leveldb)
# All paths are relative to this file: PREFIX/lib/cmake/leveldb.

get_filename_component(_terrace_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_terrace_prefix "${_terrace_lib}" DIRECTORY)

if(NOT TARGET leveldb::leveldb)
  add_library(leveldb::leveldb SHARED IMPORTED)
  set_target_properties(leveldb::leveldb PROPERTIES
    IMPORTED_LOCATION "${_terrace_lib}/libleveldb.so.1d"
    IMPORTED_SONAME "libleveldb.so.1d"
    INTERFACE_COMPILE_DEFINITIONS "LEVELDB_SHARED_LIBRARY"
    INTERFACE_INCLUDE_DIRECTORIES "${_terrace_prefix}/include")
endif()

unset(_terrace_lib)
unset(_terrace_prefix)
