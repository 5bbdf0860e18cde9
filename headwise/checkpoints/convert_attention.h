// SPDX-License-Identifier: Apache-2.0
// A layer written in another family's names and layout; every value keeps its bits and its type.
#ifndef HEADWISE_CHECKPOINTS_CONVERT_ATTENTION_H_
#define HEADWISE_CHECKPOINTS_CONVERT_ATTENTION_H_

#include <optional>
#include <string>
#include <vector>

#include "headwise/checkpoints/attention_choice.h"
#include "headwise/tensor/tensor_view.h"

namespace headwise {

struct ConvertOptions {
  // "book" (fused), "wrapper", "seed", "torch" (nn.MultiheadAttention, packed), "qkv", "gpt2", "nanogpt" or "separate".
  std::string to{};
  AttentionChoice from{};
  // Where the files do not say it. num_heads is needed for "wrapper", causal for the families that always mask:
  // "wrapper", "gpt2", "nanogpt".
  std::optional<Index> num_heads{};
  std::optional<bool> causal{};
};

struct ConvertReport {
  std::string layer{};  // its name in the source
  std::string from{}, to{};
  std::optional<Index> heads{};
  std::size_t tensors = 0;
  std::vector<std::string> notes{};  // what the target has and the layer had not: "in_proj_bias is zero"
};

// Writes one layer of `in` (as load_attention takes it) to the safetensors file `out`, which appears whole or not at
// all. What is known of the layer (heads, causal, dropout, context_length, seed) and the family go into its metadata,
// so that load_attention needs nothing else. A layer that the target cannot hold is refused: grouped heads, an output
// projection that is one too many or missing, other widths, no mask. Throws ArgumentError for those, and as
// load_attention and write_safetensors do.
ConvertReport convert_attention(const std::string& in, const std::string& out, const ConvertOptions& options);

// The families that a layer can be written as, in the order of this page.
std::vector<std::string> convert_target_names();

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_CONVERT_ATTENTION_H_
