// SPDX-License-Identifier: MIT OR Apache-2.0

#include "leveldb/iterator.h"

#include "rust_iterator.h"

namespace leveldb {

Iterator::Iterator() {
  cleanup_head_.function = nullptr;
  cleanup_head_.next = nullptr;
}

Iterator::~Iterator() {
  if (cleanup_head_.IsEmpty()) return;
  cleanup_head_.Run();
  for (CleanupNode* node = cleanup_head_.next; node != nullptr;) {
    node->Run();
    CleanupNode* next = node->next;
    delete node;
    node = next;
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
  assert(function != nullptr);
  CleanupNode* node = &cleanup_head_;
  if (!cleanup_head_.IsEmpty()) {
    node = new CleanupNode();
    node->next = cleanup_head_.next;
    cleanup_head_.next = node;
  }
  node->function = function;
  node->arg1 = arg1;
  node->arg2 = arg2;
}

namespace {

class EmptyIterator final : public Iterator {
 public:
  explicit EmptyIterator(const Status& status) : status_(status) {}

  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void Next() override { assert(false); }
  void Prev() override { assert(false); }
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

Iterator* NewEmptyIterator() { return new EmptyIterator(Status::OK()); }

Iterator* NewErrorIterator(const Status& status) { return new EmptyIterator(status); }

}  // namespace leveldb

namespace terrace {
namespace {

class RustIterator final : public leveldb::Iterator {
 public:
  explicit RustIterator(CxxIterator* iterator) : iterator_(iterator), current_() {}
  ~RustIterator() override { terrace_cxx_cursor_drop(iterator_); }

  bool Valid() const override { return current_.valid; }
  void SeekToFirst() override { current_ = terrace_cxx_first(iterator_); }
  void SeekToLast() override { current_ = terrace_cxx_last(iterator_); }
  void Seek(const leveldb::Slice& target) override {
    current_ = terrace_cxx_seek(iterator_, ToCxxSlice(target));
  }
  void Next() override { current_ = terrace_cxx_next(iterator_); }
  void Prev() override { current_ = terrace_cxx_prev(iterator_); }
  leveldb::Slice key() const override { return ToSlice(current_.key); }
  leveldb::Slice value() const override { return ToSlice(current_.value); }
  leveldb::Status status() const override {
    StatusResult error;
    return error.ToStatus(terrace_cxx_status(iterator_, error.report()));
  }

 private:
  CxxIterator* const iterator_;
  // Result of the last move, cached so that each entry costs one call to Rust.
  CurrentEntry current_;
};

}  // namespace

leveldb::Iterator* NewRustIterator(CxxIterator* iterator) {
  if (iterator == nullptr) {
    return leveldb::NewErrorIterator(leveldb::Status::IOError("internal error"));
  }
  return new RustIterator(iterator);
}

}  // namespace terrace
