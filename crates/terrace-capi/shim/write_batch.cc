// SPDX-License-Identifier: MIT OR Apache-2.0

// The bytes of a batch are a std::string of the program, whose copy operations are compiled into
// the program. So C++ code builds and reads batches here, not Rust.

#include "leveldb/write_batch.h"

#include <cstdint>

#include "leveldb/slice.h"

namespace leveldb {

namespace {

enum Tag : char { kDelete = 0, kPut = 1 };

// Size of the header: the sequence number, which the database sets, and the count.
const size_t kHeader = 12;
const size_t kCountOffset = 8;

uint32_t Count(const std::string& rep) {
  uint32_t count = 0;
  for (size_t i = 4; i-- > 0;) count = count << 8 | static_cast<unsigned char>(rep[kCountOffset + i]);
  return count;
}

void AddToCount(std::string* rep, uint32_t added) {
  uint32_t count = Count(*rep) + added;
  for (size_t i = 0; i < 4; i++, count >>= 8) (*rep)[kCountOffset + i] = static_cast<char>(count);
}

// Appends a varint length and the bytes.
void AppendLengthPrefixed(std::string* rep, const Slice& bytes) {
  size_t len = bytes.size();
  for (; len >= 0x80; len >>= 7) rep->push_back(static_cast<char>(len | 0x80));
  rep->push_back(static_cast<char>(len));
  rep->append(bytes.data(), bytes.size());
}

// Reads length-prefixed bytes and advances *from; false if they are incomplete.
bool ReadLengthPrefixed(Slice* from, Slice* bytes) {
  uint64_t len = 0;
  for (int shift = 0; shift <= 28; shift += 7) {
    if (from->empty()) return false;
    const unsigned char group = static_cast<unsigned char>((*from)[0]);
    from->remove_prefix(1);
    len |= static_cast<uint64_t>(group & 0x7f) << shift;
    if (group < 0x80) {
      if (len > from->size()) return false;
      *bytes = Slice(from->data(), static_cast<size_t>(len));
      from->remove_prefix(bytes->size());
      return true;
    }
  }
  return false;
}

}  // namespace

WriteBatch::Handler::~Handler() = default;

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::~WriteBatch() = default;

void WriteBatch::Put(const Slice& key, const Slice& value) {
  AddToCount(&rep_, 1);
  rep_.push_back(kPut);
  AppendLengthPrefixed(&rep_, key);
  AppendLengthPrefixed(&rep_, value);
}

void WriteBatch::Delete(const Slice& key) {
  AddToCount(&rep_, 1);
  rep_.push_back(kDelete);
  AppendLengthPrefixed(&rep_, key);
}

void WriteBatch::Clear() { rep_.assign(kHeader, '\0'); }

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

void WriteBatch::Append(const WriteBatch& source) {
  assert(source.rep_.size() >= kHeader);
  // Read before the first change, because source may be this batch.
  const uint32_t added = Count(source.rep_);
  const size_t len = source.rep_.size() - kHeader;
  rep_.append(source.rep_, kHeader, len);
  AddToCount(&rep_, added);
}

Status WriteBatch::Iterate(Handler* handler) const {
  if (rep_.size() < kHeader) return Status::Corruption("malformed WriteBatch (too small)");
  Slice rest(rep_.data() + kHeader, rep_.size() - kHeader);
  Slice key, value;
  uint32_t found = 0;
  while (!rest.empty()) {
    const char tag = rest[0];
    rest.remove_prefix(1);
    found++;
    switch (tag) {
      case kPut:
        if (!ReadLengthPrefixed(&rest, &key) || !ReadLengthPrefixed(&rest, &value)) {
          return Status::Corruption("bad WriteBatch Put");
        }
        handler->Put(key, value);
        break;
      case kDelete:
        if (!ReadLengthPrefixed(&rest, &key)) return Status::Corruption("bad WriteBatch Delete");
        handler->Delete(key);
        break;
      default:
        return Status::Corruption("unknown WriteBatch tag");
    }
  }
  if (found != Count(rep_)) return Status::Corruption("WriteBatch has wrong count");
  return Status::OK();
}

}  // namespace leveldb
