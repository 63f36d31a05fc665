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
  explicit RustIterator(Cursor* cursor) : cursor_(cursor), here_() {}
  ~RustIterator() override { terrace_cxx_cursor_drop(cursor_); }

  bool Valid() const override { return here_.valid; }
  void SeekToFirst() override { here_ = terrace_cxx_first(cursor_); }
  void SeekToLast() override { here_ = terrace_cxx_last(cursor_); }
  void Seek(const leveldb::Slice& target) override {
    here_ = terrace_cxx_seek(cursor_, Flat(target));
  }
  void Next() override { here_ = terrace_cxx_next(cursor_); }
  void Prev() override { here_ = terrace_cxx_prev(cursor_); }
  leveldb::Slice key() const override { return Sliced(here_.key); }
  leveldb::Slice value() const override { return Sliced(here_.value); }
  leveldb::Status status() const override {
    Outcome end;
    return end.Of(terrace_cxx_status(cursor_, end.report()));
  }

 private:
  Cursor* const cursor_;
  // What the last move found, so that an entry costs one call.
  Entry here_;
};

}  // namespace

leveldb::Iterator* NewRustIterator(Cursor* cursor) {
  if (cursor == nullptr) {
    return leveldb::NewErrorIterator(leveldb::Status::IOError("a fault inside"));
  }
  return new RustIterator(cursor);
}

}  // namespace terrace
