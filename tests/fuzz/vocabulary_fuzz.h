// SPDX-License-Identifier: Apache-2.0
// Any bytes as a vocab.txt: every id has a name, and it is UTF-8.
#ifndef HEADWISE_TESTS_FUZZ_VOCABULARY_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_VOCABULARY_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/vocabulary.h"
#include "headwise/io/utf8.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::vocabulary_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  const std::vector<std::int64_t> ids{0, 1, 2, 7, 2, -1};
  const std::vector<std::string> names = cli::name_tokens(file.path(), ids);
  if (names.size() != ids.size() || names.back() != "-1" || names[2] != names[4]) abort();
  for (const std::string& name : names) {
    if (name.empty() || !is_utf8(name)) abort();
  }
  return 0;
}

}  // namespace headwise::vocabulary_fuzz

#endif  // HEADWISE_TESTS_FUZZ_VOCABULARY_FUZZ_H_
