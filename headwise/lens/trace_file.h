// SPDX-License-Identifier: Apache-2.0
// Traces as safetensors files, for the viewer and for later.
//
// Version 1. Metadata: format "headwise-trace", version, model, layers, heads, kv_heads, head_dim, causal, sentences,
// and tokens, a JSON array with one array of strings for each sentence. Tensors of sentence i: "sentences.{i}.ids"
// (seq,) int64; of its layer l: "sentences.{i}.layers.{l}.queries" (heads, seq, head_dim) and ".keys" (kv_heads, seq,
// head_dim) float32. weights = softmax(queries keys^T / sqrt(head_dim)), masked above the diagonal when causal.
#ifndef HEADWISE_LENS_TRACE_FILE_H_
#define HEADWISE_LENS_TRACE_FILE_H_

#include <string>

#include "headwise/lens/attention_trace.h"

namespace headwise {

// The file appears whole or not at all. Throws as OutputFile does, and ArgumentError for a token that is not UTF-8.
void save_trace(const std::string& path, const AttentionTrace& trace);

// Throws FileNotFound, or FileError naming the tensor or the metadata that does not fit.
AttentionTrace load_trace(const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_LENS_TRACE_FILE_H_
