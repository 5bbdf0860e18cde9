// SPDX-License-Identifier: Apache-2.0
// Any bytes as a small JSON file: they are refused with a FileError, or their tree is the one they print as.
#ifndef HEADWISE_TESTS_FUZZ_JSON_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_JSON_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "headwise/io/file_error.h"
#include "headwise/io/json_file.h"

namespace headwise::json_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  try {
    const nlohmann::json tree = parse_json("fuzz", {reinterpret_cast<const char*>(data), size});
    if (parse_json("fuzz", tree.dump()) != tree) abort();
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::json_fuzz

#endif  // HEADWISE_TESTS_FUZZ_JSON_FUZZ_H_
