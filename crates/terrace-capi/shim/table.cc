// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/table.h"

#include "cxx_options.h"
#include "leveldb/table_builder.h"
#include "rust_iterator.h"

namespace leveldb {

using terrace::ToCxxOptions;
using terrace::ToCxxSlice;
using terrace::StatusResult;

struct Table::Rep {
  terrace::SstFileReader* table;
};

Status Table::Open(const Options& options, RandomAccessFile* file, uint64_t file_size, Table** table) {
  *table = nullptr;
  StatusResult error;
  terrace::SstFileReader* opened = nullptr;
  const terrace::CxxOptions cxx_options = ToCxxOptions(options);
  const Status status = error.ToStatus(
      terrace::terrace_cxx_table_open(&cxx_options, terrace::ToUserObject(file), file_size, &opened, error.report()));
  if (status.ok()) *table = new Table(new Rep{opened});
  return status;
}

Table::~Table() {
  terrace::terrace_cxx_table_drop(rep_->table);
  delete rep_;
}

Iterator* Table::NewIterator(const ReadOptions& options) const {
  return terrace::NewRustIterator(terrace::terrace_cxx_table_iterate(rep_->table, options.fill_cache));
}

uint64_t Table::ApproximateOffsetOf(const Slice& key) const {
  return terrace::terrace_cxx_table_offset(rep_->table, ToCxxSlice(key));
}

struct TableBuilder::Rep {
  terrace::TableBuilderHandle* builder;
};

TableBuilder::TableBuilder(const Options& options, WritableFile* file) {
  const terrace::CxxOptions cxx_options = ToCxxOptions(options);
  rep_ = new Rep{terrace::terrace_cxx_builder(&cxx_options, terrace::ToUserObject(file))};
}

TableBuilder::~TableBuilder() {
  terrace::terrace_cxx_builder_drop(rep_->builder);
  delete rep_;
}

Status TableBuilder::ChangeOptions(const Options& options) {
  StatusResult error;
  const terrace::CxxOptions cxx_options = ToCxxOptions(options);
  return error.ToStatus(terrace::terrace_cxx_builder_change(rep_->builder, &cxx_options, error.report()));
}

void TableBuilder::Add(const Slice& key, const Slice& value) {
  terrace::terrace_cxx_builder_add(rep_->builder, ToCxxSlice(key), ToCxxSlice(value));
}

void TableBuilder::Flush() { terrace::terrace_cxx_builder_flush(rep_->builder); }

Status TableBuilder::status() const {
  StatusResult error;
  return error.ToStatus(terrace::terrace_cxx_builder_status(rep_->builder, error.report()));
}

Status TableBuilder::Finish() {
  StatusResult error;
  return error.ToStatus(terrace::terrace_cxx_builder_finish(rep_->builder, error.report()));
}

void TableBuilder::Abandon() { terrace::terrace_cxx_builder_abandon(rep_->builder); }

uint64_t TableBuilder::NumEntries() const {
  return terrace::terrace_cxx_builder_entries(rep_->builder);
}

uint64_t TableBuilder::FileSize() const { return terrace::terrace_cxx_builder_size(rep_->builder); }

}  // namespace leveldb
