// SPDX-License-Identifier: Apache-2.0
// Which layer of a checkpoint is meant, and how to read it where the file leaves that open.
#ifndef HEADWISE_CHECKPOINTS_ATTENTION_CHOICE_H_
#define HEADWISE_CHECKPOINTS_ATTENTION_CHOICE_H_

#include <optional>
#include <string>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

// Everything is optional: a file with one layer whose names fit one family needs none of it.
struct AttentionChoice {
  std::optional<Index> layer{};  // its number
  std::string name{};            // or its name, as inspect_attention lists it: "encoder.layer.3.attention"
  // Whose names and layout the file has: "book", "book_v1", "book_einsum", "wrapper", "seed", "qkv", "timm", "torch",
  // "torch_unpacked", "gpt2", "nanogpt", "bert", "distilbert", "albert", "llama", "qwen3", "vit", "separate", or a
  // model_type of config.json ("roberta", "mistral").
  std::string family{};
  std::string layout{};  // "separate", "separate_in_out", "per_head", "qkv_rows" or "qkv_columns"
};

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ATTENTION_CHOICE_H_
