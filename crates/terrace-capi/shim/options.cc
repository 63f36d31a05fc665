// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/options.h"

#include "cxx_options.h"

namespace leveldb {

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

}  // namespace leveldb

namespace terrace {

CxxOptions ToCxxOptions(const leveldb::Options& options) {
  CxxOptions cxx_options = {};
  cxx_options.comparator = ToUserObject(options.comparator);
  cxx_options.env = ToUserObject(options.env);
  cxx_options.logger = ToUserObject(options.info_log);
  cxx_options.filter = ToUserObject(options.filter_policy);
  cxx_options.cache = ToUserObject(options.block_cache);
  cxx_options.block_cache = BuiltinBlockCache(options.block_cache);
  cxx_options.bloom_bits = BloomBits(options.filter_policy);
  cxx_options.compression = options.compression;
  cxx_options.write_buffer_size = options.write_buffer_size;
  cxx_options.block_size = options.block_size;
  cxx_options.max_file_size = options.max_file_size;
  cxx_options.max_open_files = options.max_open_files;
  cxx_options.block_restart_interval = options.block_restart_interval;
  cxx_options.create_if_missing = options.create_if_missing;
  cxx_options.error_if_exists = options.error_if_exists;
  cxx_options.paranoid_checks = options.paranoid_checks;
  cxx_options.reuse_logs = options.reuse_logs;
  return cxx_options;
}

}  // namespace terrace
