// SPDX-License-Identifier: Apache-2.0
// A layer of a file's sizes, to be loaded. Not installed.
#ifndef HEADWISE_CHECKPOINTS_MAKE_LAYER_H_
#define HEADWISE_CHECKPOINTS_MAKE_LAYER_H_

#include <string>

#include "headwise/checkpoints/layer_facts.h"
#include "headwise/checkpoints/layer_file.h"
#include "headwise/checkpoints/layer_layout.h"

namespace headwise {

// The facts must have kind, num_heads, causal and dropout. Throws FileError when the rows do not make that many heads
// (`path` is for it), and as the constructors do.
template <class T>
AnyLayer<T> make_layer(const LayerFacts& facts, const LayerLayout& layout, const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_MAKE_LAYER_H_
