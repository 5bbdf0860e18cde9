// SPDX-License-Identifier: Apache-2.0
// Any bytes as a trace: they are refused with a FileError, or every tensor has the sizes that the trace tells.
#ifndef HEADWISE_TESTS_FUZZ_TRACE_FUZZ_H_
#define HEADWISE_TESTS_FUZZ_TRACE_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "headwise/io/file_error.h"
#include "headwise/lens/trace_file.h"
#include "tests/fuzz/memory_file.h"

namespace headwise::trace_fuzz {

inline int fuzz_one(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const AttentionTrace trace = load_trace(file.path());
    for (const TracedSentence& sentence : trace.sentences) {
      if (sentence.tokens.size() != sentence.ids.size()) abort();
      if (static_cast<Index>(sentence.layers.size()) != trace.layers) abort();
      for (const TracedLayer& layer : sentence.layers) {
        if (layer.queries.shape() != Shape<3>{trace.heads, sentence.seq(), trace.head_dim}) abort();
        if (layer.keys.shape() != Shape<3>{trace.kv_heads, sentence.seq(), trace.head_dim}) abort();
      }
    }
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

}  // namespace headwise::trace_fuzz

#endif  // HEADWISE_TESTS_FUZZ_TRACE_FUZZ_H_
