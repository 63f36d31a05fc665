#include "leveldb/options.h"

#include "flat_options.h"

namespace leveldb {

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

}  // namespace leveldb

namespace terrace {

FlatOptions Flat(const leveldb::Options& options) {
  FlatOptions flat = {};
  flat.comparator = Hand(options.comparator);
  flat.env = Hand(options.env);
  flat.logger = Hand(options.info_log);
  flat.filter = Hand(options.filter_policy);
  flat.cache = Hand(options.block_cache);
  flat.block_cache = Blocks(options.block_cache);
  flat.bloom_bits = BloomBits(options.filter_policy);
  flat.compression = options.compression;
  flat.write_buffer_size = options.write_buffer_size;
  flat.block_size = options.block_size;
  flat.max_file_size = options.max_file_size;
  flat.max_open_files = options.max_open_files;
  flat.block_restart_interval = options.block_restart_interval;
  flat.create_if_missing = options.create_if_missing;
  flat.error_if_exists = options.error_if_exists;
  flat.paranoid_checks = options.paranoid_checks;
  flat.reuse_logs = options.reuse_logs;
  return flat;
}

}  // namespace terrace
