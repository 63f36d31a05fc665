// Copyright (c) 2014 The LevelDB Authors. All rights reserved.
// Use of this source code is governed by a BSD-style license that can be found in the file LICENSE.
// SPDX-License-Identifier: BSD-3-Clause

// Dump of a database file as text.

#ifndef STORAGE_LEVELDB_INCLUDE_DUMPFILE_H_
#define STORAGE_LEVELDB_INCLUDE_DUMPFILE_H_

#include <string>

#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

// Writes the contents of the log, manifest or table fname to *dst as text lines; does not sync or
// close dst. Fails if fname is not the name of such a file, or cannot be read. Corruption inside
// the file becomes part of the text.
LEVELDB_EXPORT Status DumpFile(Env* env, const std::string& fname, WritableFile* dst);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_DUMPFILE_H_
