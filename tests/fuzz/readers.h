// SPDX-License-Identifier: Apache-2.0
// Every reader that is fuzzed, by the name of its corpus.
#ifndef HEADWISE_TESTS_FUZZ_READERS_H_
#define HEADWISE_TESTS_FUZZ_READERS_H_

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/comparison_fuzz.h"
#include "tests/fuzz/config_fuzz.h"
#include "tests/fuzz/index_fuzz.h"
#include "tests/fuzz/inspect_fuzz.h"
#include "tests/fuzz/json_fuzz.h"
#include "tests/fuzz/layer_fuzz.h"
#include "tests/fuzz/npy_fuzz.h"
#include "tests/fuzz/npz_fuzz.h"
#include "tests/fuzz/safetensors_fuzz.h"
#include "tests/fuzz/trace_fuzz.h"
#include "tests/fuzz/vocabulary_fuzz.h"

namespace headwise {

struct FuzzedReader {
  const char* name;
  int (*fuzz_one)(const std::uint8_t* data, std::size_t size);
};

inline constexpr FuzzedReader kFuzzedReaders[] = {
    {"comparison", comparison_fuzz::fuzz_one},
    {"config", config_fuzz::fuzz_one},
    {"json", json_fuzz::fuzz_one},
    {"index", index_fuzz::fuzz_one},
    {"inspect", inspect_fuzz::fuzz_one},
    {"layer", layer_fuzz::fuzz_one},
    {"npy", npy_fuzz::fuzz_one},
    {"npz", npz_fuzz::fuzz_one},
    {"safetensors", safetensors_fuzz::fuzz_one},
    {"trace", trace_fuzz::fuzz_one},
    {"vocabulary", vocabulary_fuzz::fuzz_one},
};

}  // namespace headwise

#endif  // HEADWISE_TESTS_FUZZ_READERS_H_
