// SPDX-License-Identifier: Apache-2.0
// The records of a zip archive of stored members, to be written. Not installed.
#ifndef HEADWISE_IO_ZIP_RECORDS_H_
#define HEADWISE_IO_ZIP_RECORDS_H_

#include <cstdint>
#include <string>

#include "headwise/io/zip_directory.h"

namespace headwise {

// Of the member these read name, checksum, bytes and local_at. Its date is that of numpy.savez: 1980-01-01. A zip64
// field stands where a number needs it.
std::string zip_local_record(const ZipMember& member);
std::string zip_entry_record(const ZipMember& member);

// What ends an archive whose directory of `count` entries lies in [begin, end).
std::string zip_end_record(std::uint64_t count, std::uint64_t begin, std::uint64_t end);

}  // namespace headwise

#endif  // HEADWISE_IO_ZIP_RECORDS_H_
