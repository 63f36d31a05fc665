#include "leveldb/table.h"

#include "flat_options.h"
#include "leveldb/table_builder.h"
#include "rust_iterator.h"

namespace leveldb {

using terrace::Flat;
using terrace::Outcome;

struct Table::Rep {
  terrace::TableFile* table;
};

Status Table::Open(const Options& options, RandomAccessFile* file, uint64_t file_size, Table** table) {
  *table = nullptr;
  Outcome end;
  terrace::TableFile* opened = nullptr;
  const terrace::FlatOptions flat = Flat(options);
  const Status status = end.Of(
      terrace::terrace_cxx_table_open(&flat, terrace::Hand(file), file_size, &opened, end.report()));
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
  return terrace::terrace_cxx_table_offset(rep_->table, Flat(key));
}

struct TableBuilder::Rep {
  terrace::Builder* builder;
};

TableBuilder::TableBuilder(const Options& options, WritableFile* file) {
  const terrace::FlatOptions flat = Flat(options);
  rep_ = new Rep{terrace::terrace_cxx_builder(&flat, terrace::Hand(file))};
}

TableBuilder::~TableBuilder() {
  terrace::terrace_cxx_builder_drop(rep_->builder);
  delete rep_;
}

Status TableBuilder::ChangeOptions(const Options& options) {
  Outcome end;
  const terrace::FlatOptions flat = Flat(options);
  return end.Of(terrace::terrace_cxx_builder_change(rep_->builder, &flat, end.report()));
}

void TableBuilder::Add(const Slice& key, const Slice& value) {
  terrace::terrace_cxx_builder_add(rep_->builder, Flat(key), Flat(value));
}

void TableBuilder::Flush() { terrace::terrace_cxx_builder_flush(rep_->builder); }

Status TableBuilder::status() const {
  Outcome end;
  return end.Of(terrace::terrace_cxx_builder_status(rep_->builder, end.report()));
}

Status TableBuilder::Finish() {
  Outcome end;
  return end.Of(terrace::terrace_cxx_builder_finish(rep_->builder, end.report()));
}

void TableBuilder::Abandon() { terrace::terrace_cxx_builder_abandon(rep_->builder); }

uint64_t TableBuilder::NumEntries() const {
  return terrace::terrace_cxx_builder_entries(rep_->builder);
}

uint64_t TableBuilder::FileSize() const { return terrace::terrace_cxx_builder_size(rep_->builder); }

}  // namespace leveldb
